"""Pairs of distributions that dominate a mechanism, named exactly; no numerics here.

A pair (P, Q) stands for the privacy profile ``delta(x) = sup_S P(S) - x Q(S)`` at
``x = exp(epsilon)``; its privacy loss is ``L = log dP/dQ`` under P.  Parameters are exact numbers
or expressions.
Source: Zhu, Dong, Wang 2022, Definition 7 (dominating pairs); composition: Theorem 10.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from hashlib import sha256
from typing import Any

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, maximum, readable, sqrt, total
from dpaudit.exact.wire import decode_number, encode_number

Factor = tuple["Pair", Number]
LONGEST = 400
DEEPEST = 60


@dataclass(frozen=True)
class Pair:
    """A pair (P, Q) of distributions."""

    def __init_subclass__(cls) -> None:
        # Set here, a hash is kept by ``dataclass``; large fractions are slow to hash.
        cls.__hash__ = Pair.__hash__  # type: ignore[method-assign]

    def __hash__(self) -> int:
        found: int | None = self.__dict__.get("_hash")
        if found is None:
            found = hash((type(self), *(value for value in self.__dict__.values())))
            self.__dict__["_hash"] = found
        return found

    def __getstate__(self) -> dict[str, Any]:
        # Hashes of texts differ from process to process.
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    @property
    def text(self) -> str:
        """The pair in a few words: ``Mixed(Normal(mu=1), rate=0.01)``."""
        inside = (_named(f.name, getattr(self, f.name)) for f in fields(self))
        return f"{type(self).__name__}({', '.join(inside)})"

    @property
    def swapped(self) -> Pair:
        """The pair (Q, P)."""
        return Swapped(self)

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The independent factors of a product, each with its count."""
        return ((self, Fraction(1)),)


def _named(name: str, value: Any) -> str:
    if isinstance(value, Pair):
        return value.text
    if isinstance(value, tuple):
        return f"[{', '.join(_named('', item) for item in value)}]"
    return f"{name}={readable(value)}" if name else readable(value)


@dataclass(frozen=True)
class Symmetric(Pair):
    """A pair whose profile is that of the pair swapped."""

    @property
    def swapped(self) -> Pair:
        return self


@dataclass(frozen=True)
class Normal(Symmetric):
    """N(mu, 1) against N(0, 1)."""

    mu: Number


@dataclass(frozen=True)
class LaplaceShift(Symmetric):
    """Laplace noise of scale 1/epsilon around 1 against around 0: the loss is within epsilon."""

    epsilon: Number


@dataclass(frozen=True)
class DiscreteNormal(Symmetric):
    """Discrete Gaussian noise on the integers, sigma^2 = ``variance``, moved by ``shift``."""

    variance: Number
    shift: Number


@dataclass(frozen=True)
class Atoms(Pair):
    """Finitely many outcomes, each (P mass, Q mass); the masses sum to 1 on either side."""

    outcomes: tuple[tuple[Number, Number], ...]

    @property
    def swapped(self) -> Pair:
        """The outcomes' masses exchanged; the pair itself where that lists the same outcomes."""
        turned = tuple((q, p) for p, q in self.outcomes)
        return self if Counter(turned) == Counter(self.outcomes) else Atoms(turned)


@dataclass(frozen=True)
class Concentrated(Symmetric):
    """Whatever pair has all Renyi divergences at most rho times the order (rho-zCDP)."""

    rho: Number


@dataclass(frozen=True)
class Renyi(Symmetric):
    """Whatever pair has Renyi divergence at most ``epsilon`` at ``order``, in both directions."""

    order: Number
    epsilon: Number


@dataclass(frozen=True)
class Mixed(Pair):
    """((1 - rate) Q + rate P, Q) for the base (P, Q): the base itself at rate 1."""

    base: Pair
    rate: Number

    @property
    def swapped(self) -> Pair:
        return self.base.swapped if self.rate == 1 else Swapped(self)

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The base's at rate 1."""
        return self.base.factors if self.rate == 1 else ((self, Fraction(1)),)


@dataclass(frozen=True)
class Spliced(Pair):
    """The profile of ``above`` at x >= 1 and of ``below`` at x < 1; they meet at x = 1."""

    above: Pair
    below: Pair


@dataclass(frozen=True)
class Replaced(Symmetric):
    """A batch that a record is in at a ``rate``: N(x) or N(x') for the record, else N(y).

    ((1 - rate) N(y, I) + rate N(x, I), (1 - rate) N(y, I) + rate N(x', I)) for whatever y, x and x'
    are at most ``mu`` apart.  In a product each round has its own, which may be chosen by what the
    rounds before showed.  One round's profile is that of :class:`Spliced` over Mixed(Normal(mu)).
    """

    mu: Number
    rate: Number

    @property
    def sampled(self) -> Pair:
        """The triple with y = x', reached from above x = 1; swapped, from below."""
        return Mixed(Normal(self.mu), self.rate)

    @property
    def spliced(self) -> Pair:
        """One pair that dominates every triple, and all at once."""
        return Spliced(self.sampled, self.sampled.swapped)

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The normal pair at rate 1."""
        return Normal(self.mu).factors if self.rate == 1 else ((self, Fraction(1)),)


@dataclass(frozen=True)
class Largest(Pair):
    """The pointwise largest of several profiles; made by :func:`largest` only."""

    pairs: tuple[Pair, ...]

    @property
    def swapped(self) -> Pair:
        return Largest(_ordered(tuple(pair.swapped for pair in self.pairs)))


@dataclass(frozen=True)
class Allocated(Pair):
    """The mixture over i of N(e_i / z, I) against N(0, I) in ``slots`` dimensions.

    z = ``noise_multiplier``: one record takes part in one of the slots, chosen uniformly.
    """

    noise_multiplier: Number
    slots: Number


@dataclass(frozen=True)
class Reshuffled(Pair):
    """The mixture over i of N(2 e_i / z, I) against that of N(e_i / z, I), in ``slots`` dimensions.

    z = ``noise_multiplier``: one record is in one of the slots, chosen uniformly, and all others
    contribute the opposite of what it does.  Its upper bounds are those of Normal(1 / z).
    """

    noise_multiplier: Number
    slots: Number


@dataclass(frozen=True)
class Drawn(Pair):
    """N(J mu, 1) against N(0, 1), J binomial(size, rate) and not seen."""

    mu: Number
    rate: Number
    size: Number


@dataclass(frozen=True)
class DrawnMoves(Pair):
    """N(m_J, 1) against N(0, 1), J binomial(size, rate) and not seen.

    m_0 = 0; ``moves`` are m_1 <= m_2 <= ..., the last of them also for every larger J.
    """

    moves: tuple[Number, ...]
    rate: Number
    size: Number


@dataclass(frozen=True)
class Clones(Symmetric):
    """One report hidden among ``others``: the shuffled counts (A + I, C - A + J), seen.

    C is binomial(others, rate), A binomial(C, 1/2).  The report counts with probability ``told``:
    then (I, J) is (1, 0) or (0, 1), the first e^epsilon times as likely under P, the second under
    Q; else (0, 0).
    """

    epsilon: Number
    told: Number
    rate: Number
    others: Number


@dataclass(frozen=True)
class Polled(Clones):
    """One answer of two among ``others``, of whom any number k hold the one or the other value.

    The largest profile, over k, of Ber(p) + Bin(k, p) + Bin(others - k, 1 - p) against the same
    with Ber(1 - p) first, p = e^epsilon / (1 + e^epsilon): the ones, counted.  In a product each
    has a k of its own.  Those are no further apart than :attr:`clones`, told = 1, rate = 2 (1 - p).
    """

    @property
    def clones(self) -> Clones:
        """Where whoever counts is told which of the others' answers were drawn at random."""
        return Clones(self.epsilon, self.told, self.rate, self.others)

    @property
    def least(self) -> Tallied:
        """All others hold the same value."""
        return Tallied(self.epsilon, self.rate / 2, self.others)


@dataclass(frozen=True)
class Blanket(Symmetric):
    """Clones whose report is hidden where it is not counted, too.

    Each of ``others`` is at ``rate`` counted on either side, 1/2 each, at ``rest`` one of the rest,
    and else known.  The report counts with probability ``told``, as in :class:`Clones`; else it is
    one of the rest.  The two counts and the number of the rest are seen.
    """

    epsilon: Number
    told: Number
    rate: Number
    rest: Number
    others: Number

    @property
    def clones(self) -> Clones:
        """Where the number of the rest is not seen: no further apart."""
        return Clones(self.epsilon, self.told, self.rate, self.others)


@dataclass(frozen=True)
class Tallied(Pair):
    """The number of ones among a report of 0 or 1 and those of ``others``, all independent.

    Each of the others is 1 with probability ``rare``; the one is so under Q, and e^epsilon times as
    likely under P.
    """

    epsilon: Number
    rare: Number
    others: Number


@dataclass(frozen=True)
class Branched(Pair):
    """Branches (p, q, base): taken with mass p under P and q under Q, seen, then the base's pair.

    delta(x) is the sum of p delta_base(x q / p), and p where q = 0; either side's masses sum to 1.
    """

    branches: tuple[tuple[Number, Number, Pair], ...]

    @property
    def swapped(self) -> Pair:
        return Branched(tuple((q, p, base.swapped) for p, q, base in self.branches))


@dataclass(frozen=True)
class Scored(Pair):
    """A score under P, another under Q: a secret threshold R is below it (bottom), or Normal(mu).

    R is in 0..2 kappa with P(R = r) proportional to exp(-epsilon |r - kappa|); whether R is at
    least the score is seen, and only then N(mu, 1) against N(0, 1).
    """

    epsilon: Number
    kappa: Number
    score: Number
    other: Number
    mu: Number

    @property
    def swapped(self) -> Pair:
        return Scored(self.epsilon, self.kappa, self.other, self.score, self.mu)


@dataclass(frozen=True)
class Thresholded(Symmetric):
    """The largest over scores s, t one apart: Scored, with mu = offset + slope * (s + t)."""

    epsilon: Number
    kappa: Number
    offset: Number
    slope: Number


@dataclass(frozen=True)
class Swapped(Pair):
    """(Q, P) for the base (P, Q); made by :attr:`Pair.swapped` only."""

    base: Pair

    @property
    def swapped(self) -> Pair:
        return self.base


@dataclass(frozen=True)
class Product(Pair):
    """Independent factors with their counts; made by :func:`product` only."""

    parts: tuple[Factor, ...]

    @property
    def text(self) -> str:
        return " x ".join(p.text + (f"^{readable(n)}" if n != 1 else "") for p, n in self.parts)

    @property
    def swapped(self) -> Pair:
        return Product(_sorted([(pair.swapped, times) for pair, times in self.parts]))

    @property
    def factors(self) -> tuple[Factor, ...]:
        return self.parts


def product(factors: Iterable[Factor]) -> Pair:
    """Independent factors as one pair: equal ones merged, all normal ones collapsed into one.

    Normal(a) x Normal(b) has the profile of Normal(sqrt(a^2 + b^2)) exactly.
    Source: Dong, Roth, Su 2022, Corollary 3.3 (composition of Gaussian trade-off curves).
    """
    return _collected([(p, inner * times) for base, times in factors for p, inner in base.factors])


def joined(pairs: Iterable[Pair]) -> Pair:
    """The product of several pairs, each once."""
    return _collected([factor for pair in pairs for factor in pair.factors])


def _collected(factors: list[Factor]) -> Pair:
    counts: dict[Pair, list[Number]] = {}
    squares: list[Number] = []
    for pair, times in factors:
        if isinstance(pair, Normal):
            squares.append(pair.mu**2 * times)
        else:
            counts.setdefault(pair, []).append(times)
    merged = [(pair, n) for pair, parts in counts.items() if (n := total(parts)) != 0]
    if squares and (mu := sqrt(total(squares))) != 0:
        merged.append((Normal(mu), Fraction(1)))
    if not merged:
        return Normal(Fraction(0))
    return merged[0][0] if len(merged) == 1 and merged[0][1] == 1 else Product(_sorted(merged))


def _sorted(factors: list[Factor]) -> tuple[Factor, ...]:
    if len(factors) == 1:
        return tuple(factors)
    return tuple(sorted(factors, key=lambda factor: factor[0].text))


def distinct(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    """Alternatives, each once; of several normal (or Laplace) ones only the largest."""
    found = list(dict.fromkeys(pairs))
    for kind in (Normal, LaplaceShift):
        own = [pair for pair in found if isinstance(pair, kind)]
        if len(own) > 1:
            most = kind(maximum(n for pair in own for n in numbers_in(pair)))
            found = [most, *(pair for pair in found if not isinstance(pair, kind))]
    return tuple(found)


def largest(pairs: Iterable[Pair]) -> Pair:
    """One pair whose profile is the pointwise largest of several."""
    found = distinct(pairs)
    return found[0] if len(found) == 1 else Largest(_ordered(found))


def _ordered(pairs: tuple[Pair, ...]) -> tuple[Pair, ...]:
    return tuple(sorted(pairs, key=lambda pair: pair.text))


def numbers_in(value: Any) -> list[Number]:
    """Every parameter inside a pair, in order."""
    if is_dataclass(value):
        return [n for f in fields(value) for n in numbers_in(getattr(value, f.name))]
    if isinstance(value, tuple):
        return [n for item in value for n in numbers_in(item)]
    return [value]


def mapped(pair: Any, change: Callable[[Number], Number]) -> Any:
    """The same pair with every parameter changed."""
    if isinstance(pair, Product):
        return product((mapped(p, change), change(times)) for p, times in pair.parts)
    if isinstance(pair, Largest):
        return largest(mapped(p, change) for p in pair.pairs)
    if isinstance(pair, Pair):
        return type(pair)(*(mapped(getattr(pair, f.name), change) for f in fields(pair)))
    if isinstance(pair, tuple):
        return tuple(mapped(item, change) for item in pair)
    return change(pair)


@dataclass(frozen=True)
class Losses:
    """What a declaration folds to: pairs by direction, the guarantee being the largest of them.

    ``remove``: P is the run with the record (or on the first data set), Q the run without it;
    ``add``: the other way.  The pairs in ``remove`` and ``add`` together dominate; each in
    ``reached_remove`` and ``reached_add`` is dominated by what some data and queries reach.
    ``slack``: the distance in total variation, on every data set, to a mechanism of which all this
    holds.  ``in_one_part``: one record reaches it in one part of a partition only.
    """

    remove: tuple[Pair, ...]
    add: tuple[Pair, ...]
    reached_remove: tuple[Pair, ...] = ()
    reached_add: tuple[Pair, ...] = ()
    slack: Number = Fraction(0)
    in_one_part: bool = False

    @property
    def text(self) -> str:
        """What dominates, and what is reached where that is another; a digest where it is long."""
        whole = self._whole
        if len(whole) <= LONGEST:
            return whole
        return f"{whole[:LONGEST]}... (sha256 {sha256(whole.encode()).hexdigest()})"

    @property
    def _whole(self) -> str:
        upper, lower = _listed(self.pairs), _listed(self.reached)
        slack = f", slack {readable(self.slack)}" if self.slack != 0 else ""
        return f"{upper}{slack}" + ("" if lower == upper else f"; reached: {lower or 'unknown'}")

    def to_wire(self) -> dict[str, Any] | None:
        """What dominates, as JSON; None where its text is abbreviated, or a number has no form."""
        if len(self._whole) > LONGEST:
            return None
        try:
            sides = {name: [_wire(pair) for pair in getattr(self, name)] for name in SIDES}
            return {**sides, "slack": encode_number(self.slack)}
        except InvalidParameter:
            return None

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Every pair that is needed for the upper bound, each once."""
        return tuple(dict.fromkeys((*self.remove, *self.add)))

    @property
    def reached(self) -> tuple[Pair, ...]:
        """Every pair that gives a lower bound, each once."""
        return tuple(dict.fromkeys((*self.reached_remove, *self.reached_add)))


SIDES = ("remove", "add")


def _wire(value: Any) -> Any:
    if isinstance(value, Pair):
        inside = {f.name: _wire(getattr(value, f.name)) for f in fields(value)}
        return {"pair": type(value).__name__, **inside}
    if isinstance(value, tuple):
        return {"list": [_wire(item) for item in value]}
    return encode_number(value)


def from_wire(table: Mapping[str, Any]) -> tuple[tuple[Pair, ...], tuple[Pair, ...], Number]:
    """Pairs in either direction, and the slack, that :meth:`Losses.to_wire` wrote.

    Only their form is looked at: whoever reads them compares them with pairs of their own.
    Errors: InvalidParameter for another form.
    """
    if set(table) != {*SIDES, "slack"}:
        raise InvalidParameter("pairs: expected those in either direction, and the slack")
    remove, add = (tuple(_read(pair, 0) for pair in table[side]) for side in SIDES)
    if not all(isinstance(pair, Pair) for pair in (*remove, *add)):
        raise InvalidParameter("pairs: expected pairs of distributions")
    return remove, add, decode_number(table["slack"])


def _read(table: Any, depth: int) -> Any:
    if depth > DEEPEST:
        raise InvalidParameter(f"pairs nested deeper than {DEEPEST}")
    if not isinstance(table, dict):
        return decode_number(table)
    if set(table) == {"list"} and isinstance(table["list"], list):
        return tuple(_read(item, depth + 1) for item in table["list"])
    kind = _kinds(Pair).get(str(table.get("pair")))
    names = [f.name for f in fields(kind)] if kind else []
    if kind is None or set(table) != {"pair", *names}:
        raise InvalidParameter("pairs: a pair of no known type, or with other parameters")
    return kind(*(_read(table[name], depth + 1) for name in names))


def _kinds(base: type[Pair]) -> dict[str, type[Pair]]:
    """Every pair that has parameters, by its name."""
    found = {base.__name__: base} if fields(base) else {}
    for kind in base.__subclasses__():
        found |= _kinds(kind)
    return found


def _listed(pairs: tuple[Pair, ...]) -> str:
    shown = [pair.text for pair in pairs]
    return shown[0] if len(shown) == 1 else f"max({', '.join(shown)})" if shown else ""


def one(pair: Pair) -> Losses:
    """A pair that dominates and is reached, in both directions."""
    forth = (pair,)
    back = forth if pair.swapped is pair else (pair.swapped,)
    return Losses(forth, back, forth, back)


def opaque(pair: Pair) -> Losses:
    """A pair that dominates; whether anything reaches it is not known."""
    return Losses((pair,), (pair.swapped,))
