"""The curator of a run on the data: what it holds is out of the program's reach by name.

Python hides nothing from code in the same process that looks for it (frames, the garbage collector,
the queries themselves, which see every row): ``docs/sharp_edges.md`` says what is left.
:class:`Withheld` answers from a transcript and holds no record at all: what a program and its
metrics give on it, they give of what was released.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from dpaudit.curator.curator import Event, Request, Sampler, Told
from dpaudit.curator.locations import at, is_program, line_of_error, program_line
from dpaudit.errors import DpauditError, InvalidParameter, Undeclared
from dpaudit.kernels.query import Records
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope

Generator = np.random.Generator


class _Hidden:
    """An attribute that is in no instance's ``__dict__``, and that a program's code cannot read."""

    def __init__(self) -> None:
        held: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self._read, self._write = held.__getitem__, held.__setitem__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, curator: Any, owner: type | None = None) -> Any:
        if curator is None:
            return self
        if is_program(sys._getframe(1)):
            raise Undeclared(
                f"the program reads the curator's private {self._name!r}{at(program_line())}: "
                "records are for its queries alone; ask for a release"
            )
        return self._read(curator)

    def __set__(self, curator: Any, value: Any) -> None:
        self._write(curator, value)


class Guarded(Sampler):
    """The sampler of a run on the data: records, batches and generators are hidden.

    Errors: Undeclared, naming the line, where the program's own code reads one of them.
    """

    _records = _Hidden()
    _parts = _Hidden()
    _latent = _Hidden()
    _passes = _Hidden()
    _rng = _Hidden()
    _sessions = _Hidden()

    def _rehearse(self, request: Request) -> None:
        """As a sampler's; a query that fails on zeros is refused by name, before data is touched.

        Errors: InvalidParameter, with the kind of what it raised and the line.
        """
        try:
            super()._rehearse(request)
        except DpauditError:
            raise
        except Exception as error:  # noqa: BLE001  (its text is left out: it may quote anything)
            said = f"{type(error).__name__}{at(line_of_error(error))}"
            raise InvalidParameter(
                f"release {request.label!r}: its query fails on rows of zeros ({said}), on which "
                "every query is tried before data is touched; nothing was drawn for it. Let it "
                "give a vector of the same length for any records of its shape, zeros too, or "
                "certify the mechanism without its records"
            ) from None


class Withheld(Told):
    """Answers every release with what a transcript holds; there is no record behind it.

    Rows are zeros, and under add_remove another number of them: it is private.  Queries are never
    evaluated.  Errors: Diverged where the program asks for something else than was recorded.
    """

    def __init__(
        self, declaration: Node, scope: Scope, shape: Sequence[int], transcript: Sequence[Event]
    ) -> None:
        count, *row = shape
        more = scope.adjacency is Adjacency.ADD_REMOVE
        records = Records(np.zeros((count + more, *row)))
        super().__init__(declaration, scope, records, transcript)
