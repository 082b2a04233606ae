"""The curator of a run on the data: it refuses what a program reads of it by mistake.

Records, batches and generators are private attributes, and a program that names one is stopped at
that line.  This is no boundary: Python hides nothing from code in the same process that looks for
it (``SECURITY.md``).
:class:`Withheld` answers from a transcript and holds no record at all: what a program and its
metrics give on it, they give of what was released.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpaudit.curator.curator import Event, Request, Sampler, Told
from dpaudit.curator.locations import at, line_of_error, private_read
from dpaudit.errors import DpauditError, InvalidParameter, Undeclared
from dpaudit.kernels.query import Records
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope


class Guarded(Sampler):
    """The sampler of a run on the data.

    Errors: Undeclared, naming the line, where a line of the program reads a private attribute, by
    its name, by ``getattr`` or by ``vars``.
    """

    def __getattribute__(self, name: str) -> Any:
        if (line := private_read(name, sys._getframe(1))) is not None:
            raise Undeclared(
                f"the program reads the curator's private {name!r}{line}: records are for its "
                "queries alone; ask for a release"
            )
        return super().__getattribute__(name)

    def _rehearse(self, request: Request) -> None:
        """As a sampler's; a query that fails on zeros is refused by name, before data is touched.

        Errors: InvalidParameter, with the kind of what it raised and the line.
        """
        try:
            super()._rehearse(request)
        except DpauditError:
            raise
        except Exception as error:  # noqa: BLE001  (its text is left out: it may quote anything)
            cause = f"{type(error).__name__}{at(line_of_error(error))}"
            raise InvalidParameter(
                f"release {request.label!r}: its query fails on rows of zeros ({cause}), on which "
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
