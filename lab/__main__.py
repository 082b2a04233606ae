"""``python -m lab``: the experiments' own command line."""

from lab.command import main

if __name__ == "__main__":
    main()
