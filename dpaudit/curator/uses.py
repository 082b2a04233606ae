"""Uses: how often, on which rows, and in which batches a declaration allows each leaf."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from dpaudit.accountant.filters.spending import has_fixed_noise, leaves_of, refuse_excess
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import is_symbolic
from dpaudit.families.adaptive import Filter
from dpaudit.families.composition import Assuming, Compose, Parallel, Repeat
from dpaudit.families.events import EventSlack, Group, ProposeTestRelease
from dpaudit.families.opaque import NonPrivate
from dpaudit.families.tuning import Tuned, TunedPoisson
from dpaudit.kernels.batches import batches_of, draws_batches
from dpaudit.nodes import Leaf, Node

MAXIMUM_RUNS = 1_000_000  # uses of labels that are listed
MAXIMUM_USES = 2**62  # stands for any number of uses, and fits 64 bits
PUBLIC_COIN = "public coin"
# A run of one is declared, and made any number of times: its use is the whole search.
SEARCHES = (Tuned, TunedPoisson)


@dataclass(frozen=True)
class Run:
    """``times`` consecutive uses of one leaf: on all records or a part, or in secret batches of it.

    ``each``: how many uses of the leaf's label one batch covers.  ``under``: the filter that
    charges each use by the noise multiplier it is given; ``times`` is then no limit.
    """

    leaf: Node
    times: int
    part: int | None = None
    sampling: Node | None = None
    each: int = 0
    under: Filter | None = None


def grouped(declaration: Node) -> tuple[Node, int]:
    """The declaration that runs, and for how many records together it guarantees: 1 without Group.

    Errors: InvalidParameter for a size that is still a symbol.
    """
    if isinstance(declaration, Assuming):
        node, size = grouped(declaration.base)
        return (declaration, 1) if size == 1 else (node, size)
    if not isinstance(declaration, Group):
        return declaration, 1
    if is_symbolic(declaration.size):
        raise InvalidParameter(f"{declaration.head}: bind its symbols to numbers before a run")
    node, size = grouped(declaration.child)
    return node, size * int(declaration.size)


def runs(node: Node, part: int | None = None) -> Iterator[Run]:
    """The declared uses of every leaf, in declared order.

    Errors: InvalidParameter where a count is still symbolic, or a structure cannot be run;
    Unsupported for a combinator of which not every child may run.
    """
    if isinstance(node, NonPrivate):
        return
    if isinstance(node, Group):
        raise Unsupported(
            f"{node.head} inside another node cannot be run: make the Group the outermost node"
        )
    if isinstance(node, (Leaf, ProposeTestRelease)):
        yield Run(node, 1, part)
    elif isinstance(node, SEARCHES):
        if part is not None:
            raise Unsupported(f"{node.head} on a part cannot be run: a search reads all records")
        yield Run(node, 1)
    elif isinstance(node, (Compose, Assuming, EventSlack)):
        for child in node.children:
            yield from runs(child, part)
    elif draws_batches(node):
        yield from _sampled(node, part)
    elif type(node) in _HOW:
        yield from _HOW[type(node)](node, part)
    else:
        raise Unsupported(f"{node.head} cannot be run: curators know no such combinator")


def _parallel(node: Parallel, part: int | None) -> Iterator[Run]:
    if part is not None:
        raise InvalidParameter(f"{node.head} inside a Parallel: flatten the parts to run it")
    for i, child in enumerate(node.children):
        yield from runs(child, i)


def _repeated(node: Repeat, part: int | None) -> Iterator[Run]:
    if is_symbolic(node.times):
        raise InvalidParameter(f"{node.head}: bind its symbols to numbers before a run")
    times = int(node.times)
    if node.index is not None:
        _countable(times)
        for k in range(1, times + 1):
            yield from runs(node.child.bind({node.index: k}), part)
        return
    body = limited(runs(node.child, part))
    if times != 1 and any(run.under for run in body):
        raise Unsupported(f"{node.head}: a repeated Filter cannot be run; give each its own labels")
    yield from _times(body, times)


def _times(body: list[Run], times: int) -> Iterator[Run]:
    if len({label_of(run.leaf) for run in body}) == len(body):
        yield from (replace(run, times=run.times * times) for run in body)
    else:
        _countable(times * len(body))
        for _ in range(times):
            yield from body


def _filtered(node: Filter, part: int | None) -> Iterator[Run]:
    """Each leaf, as often as its charges fit; each once, where their noise is fixed."""
    if all(map(has_fixed_noise, leaves_of(node))):
        refuse_excess(node)
        yield from (Run(leaf, 1, part) for leaf in leaves_of(node))
        return
    for leaf in leaves_of(node):
        yield Run(leaf, MAXIMUM_USES, part, under=node)


def _sampled(node: Any, part: int | None) -> Iterator[Run]:
    """The uses of every batch; those of a pass batch by batch, and round by round.

    A child that is repeated comes back to each batch as often: one repetition a visit.
    """
    drawn = batches_of(node)
    for child, rounds in _visits(node.child, drawn.rounds):
        body = limited(runs(child))
        if any(
            run.part is not None or run.sampling or run.under or isinstance(run.leaf, SEARCHES)
            for run in body
        ):
            raise InvalidParameter(
                f"{node.head}: parts, batches, filters, searches inside a batch cannot be run"
            )
        uses = []
        for run in body:
            each = sum(other.times for other in body if label_of(other.leaf) == label_of(run.leaf))
            uses.append(replace(run, part=part, sampling=node, each=each))
        # One use of a leaf with memory is a whole pass.
        yield from _times(uses, 1 if drawn.within_use else drawn.slots * rounds)


def _visits(child: Any, rounds: int) -> Iterator[tuple[Node, int]]:
    """The declarations that visits of a batch run, with the number of equal visits in a row."""
    if rounds == 1:
        yield child, 1
    elif child.index is None:
        yield child.child, rounds
    else:
        for k in range(1, rounds + 1):
            yield child.child.bind({child.index: k}), 1


_HOW: dict[type[Node], Callable[[Any, int | None], Iterator[Run]]] = {
    Parallel: _parallel,
    Repeat: _repeated,
    Filter: _filtered,
}


def limited(uses: Iterable[Run]) -> list[Run]:
    """All uses; errors: InvalidParameter for over a million."""
    body = list(islice(uses, MAXIMUM_RUNS + 1))
    _countable(len(body))
    return body


def _countable(count: int) -> None:
    if count > MAXIMUM_RUNS:
        raise InvalidParameter(f"the declaration unrolls to over {MAXIMUM_RUNS} runs")


def label_of(leaf: Node) -> str:
    """The label by which a run releases a leaf; errors: InvalidParameter without a usable one.

    A search has the label of the first leaf of one run.
    """
    if isinstance(leaf, SEARCHES):
        return label_of(next(runs(leaf.child)).leaf)
    named = leaf.release if isinstance(leaf, ProposeTestRelease) else leaf
    label: Any = named.parameters.get("label")
    if not label:
        raise InvalidParameter(f"{leaf.head} has no label: a run needs one to release it by")
    if label == PUBLIC_COIN:
        raise InvalidParameter(f"label {label!r} is kept for public coins: rename the release")
    return str(label)
