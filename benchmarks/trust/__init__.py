"""Attempts on the verifier, the ledger and the readers, at an earlier revision and at this one."""
