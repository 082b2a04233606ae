"""Files written whole, audits' batches on disk, and the roots of projects."""
