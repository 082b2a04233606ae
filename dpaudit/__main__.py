"""``python -m dpaudit``: the command line without the installed script."""

import sys

from dpaudit.cli.main import main

if __name__ == "__main__":  # worker processes import this file again under another name
    sys.exit(main())
