"""``python -m experiments``: the experiments' own command line."""

from experiments.lab.command import main

if __name__ == "__main__":
    main()
