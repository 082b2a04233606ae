"""Errata of the stable-subset paper: none was found."""

from experiments.lab.errata import Errata

STABLE_ERRATA = Errata("stable", "Stable-subset output perturbation (Ghazi et al. 2023)", ())
