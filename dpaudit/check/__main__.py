"""``python -m dpaudit.check SECONDS FILES``: one JSON row a file."""

import sys

from dpaudit.check.process import main

main(sys.argv[1:])
