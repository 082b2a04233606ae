"""The examiner: a mechanism's own program, on records that the tool makes, with no suite.

An examination tries, in this order, until the seconds are over:

1. Records are made.  Their shape comes from the mechanism's hook, from the data, or from what the
   program's fields, its queries and its refusals say (``shapes``).  Rows are extreme, opposite,
   empty, of numbers that the code names, and such as meet the conditions of its queries, which are
   watched and searched for (``made``, ``outcomes``, ``aims``).
2. The program runs on several data sets, and at every release its query is asked again on
   neighbouring ones (``study``): those of the hook, few rows at equal distances, numbers of equal
   or of different rows, then steps from the best.  All of them are one search, which maximises how
   far the query moves over what it states (``search``, ``displacement``).
3. Conditions of its queries that were true of no record are listed: the certificate is unconfirmed.
4. The same again after answers of far more noise and of hardly any, since any answer has some
   probability.  Threshold tests that are declared monotone have a rule of their own (``one_way``).
5. Whole runs walk along the transcript of another data set (``walks``): nothing but values may
   differ, neither what is asked for, nor outputs, prints, logs and files (``said``).
6. The noise is drawn alone, against its law restated (``noise``).
7. One trial is one of many, and nothing of the records is kept or held (``held``).
8. The pair of data sets whose whole runs gather most privacy loss is searched by the same search
   (``losses``); the likelihood audit attacks it.
9. Rows of another rank, and more of them, are tried where the program asks for these.
10. Searches of step 2 that were cut short go on, in turns, until the seconds are over.

A program runs in one place (``running``), which puts the world back; work is counted, so that what
is tried is the same on every machine, and seconds are the last resort (``meter``).  The loader of
the data is examined as a function of its source (``loader``).  A fault that is found is one; the
absence of faults is not proved, and a query that no record moved is reported as unexamined.
"""

from dpaudit.audit.examine.examination import (
    Examination,
    Reached,
    examine,
    read_by_others,
    shape_like,
)
from dpaudit.audit.examine.held import held_by
from dpaudit.audit.examine.lines import Ran
from dpaudit.audit.examine.loader import mixing
from dpaudit.audit.examine.shapes import Shape, Unknown, shape_of

__all__ = [
    "Examination",
    "Ran",
    "Reached",
    "Shape",
    "Unknown",
    "examine",
    "held_by",
    "mixing",
    "read_by_others",
    "shape_like",
    "shape_of",
]
