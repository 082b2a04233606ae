"""What a verifier, a ledger and a reader of files did at an earlier revision, and do now."""
