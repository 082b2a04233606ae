"""Pairs of distributions that dominate a mechanism: a class in one file owns its mathematics.

Elementary pairs are :class:`Normal`, :class:`LaplaceShift`, :class:`TruncatedLaplaceShift`,
:class:`StudentShift`, :class:`DiscreteNormal`, :class:`Atoms`, :class:`Concentrated`,
:class:`Renyi`, :class:`Allocated`, :class:`Reshuffled`, :class:`Drawn`, :class:`DrawnMoves`,
:class:`NormalMixture`, :class:`Opposed`, :class:`Tallied`, :class:`Clones`, :class:`Polled` and
:class:`Blanket`;
combinators are :class:`Best`, :class:`BestOfPoisson`, :class:`Mixed`, :class:`Spliced`,
:class:`Replaced`, :class:`Branched`, :class:`Scored`, :class:`Thresholded`, :class:`Largest`,
:class:`Product` and :class:`Swapped`.
:class:`Losses` are the pairs of a declaration, by direction.
"""

from dpaudit.pairs.allocated import Allocated
from dpaudit.pairs.atoms import Atoms, staircase_shift, told
from dpaudit.pairs.best import Best, BestOfPoisson
from dpaudit.pairs.branched import Branched
from dpaudit.pairs.clones import Blanket, Clones, Polled
from dpaudit.pairs.core import (
    Factor,
    Pair,
    Sample,
    Swapped,
    Symmetric,
    largest_loss,
    numbers_in,
)
from dpaudit.pairs.discrete_normal import DiscreteNormal
from dpaudit.pairs.drawn import Drawn, DrawnMoves, NormalMixture
from dpaudit.pairs.laplace import LaplaceShift
from dpaudit.pairs.losses import Losses, one, opaque, told_apart
from dpaudit.pairs.mixed import Mixed
from dpaudit.pairs.normal import Normal
from dpaudit.pairs.opposed import Opposed
from dpaudit.pairs.renyi import Concentrated, Renyi
from dpaudit.pairs.replaced import Replaced
from dpaudit.pairs.reshuffled import Reshuffled
from dpaudit.pairs.scored import Scored, Thresholded
from dpaudit.pairs.several import Largest, Product, distinct, joined, largest, product
from dpaudit.pairs.spliced import Spliced
from dpaudit.pairs.student import StudentShift
from dpaudit.pairs.tallied import Tallied
from dpaudit.pairs.truncated_laplace import TruncatedLaplaceShift
from dpaudit.pairs.wire import from_wire

__all__ = [
    "Allocated",
    "Atoms",
    "Best",
    "BestOfPoisson",
    "Blanket",
    "Branched",
    "Clones",
    "Concentrated",
    "DiscreteNormal",
    "Drawn",
    "DrawnMoves",
    "Factor",
    "LaplaceShift",
    "Largest",
    "Losses",
    "Mixed",
    "Normal",
    "NormalMixture",
    "Opposed",
    "Pair",
    "Polled",
    "Product",
    "Renyi",
    "Replaced",
    "Reshuffled",
    "Sample",
    "Scored",
    "Spliced",
    "StudentShift",
    "Swapped",
    "Symmetric",
    "Tallied",
    "Thresholded",
    "TruncatedLaplaceShift",
    "distinct",
    "from_wire",
    "joined",
    "largest",
    "largest_loss",
    "numbers_in",
    "one",
    "opaque",
    "product",
    "staircase_shift",
    "told",
    "told_apart",
]
