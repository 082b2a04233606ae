"""``python -m dpaudit.check SECONDS``, files on standard input: one JSON row a file."""

import sys

from dpaudit.check.process import main

main(sys.argv[1:])
