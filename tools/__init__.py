"""Commands for the developers of dpaudit; no part of an install."""
