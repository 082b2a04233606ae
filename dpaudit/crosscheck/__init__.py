"""Other accountants and other libraries' descriptions, asked and compared."""
