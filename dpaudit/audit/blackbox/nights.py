"""Evidence against claims that is kept over the nights of a year, under one error budget.

Every night, each audit draws afresh and bets against its claim; the bets of different nights
multiply (``FunctionAudit.log_e_value``).  A bug may come on any night, and the wealth that earlier
nights lost must not hide it.  Hence a part 1 / 366 of the wealth starts to bet on each day of the
year: after a night with e-value E, on a day that no earlier night was on,

    S <- (S + 1 / 366) E,    W = S + (days not begun) / 366.

W is a non-negative martingale from 1 under the claim, whatever the code was on which night, and
whenever one looks.  By Ville's inequality it ever reaches 1 / a with probability at most a.  The
j-th audit of the year has a = error / (j (j + 1)), which add up to the budget: however many audits
there are, a year of true claims has an alarm with probability at most ``error``.

The file is JSON.  It is replaced whole, under a lock, as soon as an audit ends: a killed session
loses the audits that had not ended, and several processes add to one file.

Sources: Ville (1939); Shin, Ramdas and Rinaldo (2024), e-detectors, for the sum over starts.
"""

from __future__ import annotations

import fcntl
import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from dpaudit.errors import InvalidParameter
from dpaudit.exact.domains import real
from dpaudit.storage.evidence import strict_json
from dpaudit.storage.files import write_atomically

# Days of a leap year; each may start one test of a claim with an equal share of the wealth.
DAYS_A_YEAR = 366
YEARLY_ERROR = 0.01  # Probability of any false alarm in one project and year.
FILE_FORMAT = 1  # Version number of the file's format.
COMMIT = re.compile(r"[0-9A-Za-z]*")  # it stands in a command that people copy
_Kind = TypeVar("_Kind", "Night", "Evidence", "Year")
# Nats: far more than the rounding error of the log wealth summed over one year.
LOG_WEALTH_ROUNDING = 1e-9


@dataclass(frozen=True)
class Night:
    """A night's place: its day, and the commit that was tested, "" where none is known."""

    day: str
    commit: str = ""

    @property
    def words(self) -> str:
        return f"{self.commit[:12]} ({self.day})" if self.commit else self.day


@dataclass(frozen=True)
class Evidence:
    """Evidence of a year's nights against one claim.

    ``number``: its place among the year's audits.  ``log_started``: log of S.  ``days``: on which
    it has begun to bet.  ``rise``: the log of the largest product of e-values up to the last night;
    it begins on ``since``, after the night ``before``.  ``trials``: draws a side since then.
    """

    number: int
    log_started: float = -math.inf
    days: int = 0
    last: Night = field(default=Night(""))
    before: Night = field(default=Night(""))
    since: Night = field(default=Night(""))
    rise: float = 0.0
    nights: int = 0
    trials: int = 0
    red: bool = False

    @property
    def log_wealth(self) -> float:
        """Log of the evidence against the claim, starting from 0."""
        idle = (DAYS_A_YEAR - self.days) / DAYS_A_YEAR
        return float(_log_sum(self.log_started, math.log(idle) if idle > 0 else -math.inf))

    def bar(self, error: float) -> float:
        """The log of the evidence that refutes the claim, for a year's ``error``."""
        return math.log(self.number * (self.number + 1) / error)

    def after(self, night: Night, log_e_value: float, trials: int, error: float) -> Evidence:
        """The evidence after a further night; ``red`` once it has reached its bar."""
        begins = night.day != self.last.day and self.days < DAYS_A_YEAR
        started = _log_sum(self.log_started, -math.log(DAYS_A_YEAR)) if begins else self.log_started
        rises = self.rise > 0
        later = replace(
            self,
            log_started=started + log_e_value,
            days=self.days + begins,
            last=night,
            before=self.before if rises else self.last,
            since=self.since if rises else night,
            rise=(self.rise if rises else 0.0) + log_e_value,
            nights=self.nights + 1,
            trials=(self.trials if rises else 0) + trials,
        )
        return replace(
            later, red=self.red or later.log_wealth >= self.bar(error) + LOG_WEALTH_ROUNDING
        )

    @property
    def hint(self) -> str:
        """Between which nights the evidence began, as commands of git where commits are known."""
        if self.before.commit and self.since.commit not in ("", self.before.commit):
            return f"git bisect start {self.since.commit[:12]} {self.before.commit[:12]}"
        earlier = f" after {self.before.words}" if self.before.day else ", with the first night"
        return f"the evidence began on {self.since.words}{earlier}"


@dataclass(frozen=True)
class Year:
    """A year of a project: its error budget, and the evidence on each claim by its name."""

    year: int
    error: float = YEARLY_ERROR
    claims: Mapping[str, Evidence] = field(default_factory=dict)
    used: int = 0

    def of(self, name: str) -> Evidence:
        """The evidence on a claim; none yet where it is new."""
        return self.claims.get(name) or Evidence(self.used + 1)

    def with_night(self, name: str, night: Night, log_e_value: float, trials: int) -> Year:
        """The year after a night of one audit."""
        later = self.of(name).after(night, log_e_value, trials, self.error)
        used = max(self.used, later.number)
        return replace(self, claims={**self.claims, name: later}, used=used)

    def renewed(self, name: str) -> Year:
        """The year with a claim's evidence started again after a fix, as one more audit."""
        return replace(
            self, claims={key: evidence for key, evidence in self.claims.items() if key != name}
        )


class Nights:
    """The file that keeps a project's evidence.

    ``error``: false-alarm rate of a year; None takes the file's, 0.01 in a new file.
    Errors: InvalidParameter for a file of another kind, or an error other than the file's.
    """

    def __init__(self, path: Path, error: float | None = None) -> None:
        if error is not None and not 0 < real(error, "error") < 1:
            raise InvalidParameter(f"error = {error!r}: expected in (0, 1)")
        self.path, self.error = path, error

    def read(self, today: date) -> Year:
        """The year that ``today`` is in; a new one, with a new budget, after the last."""
        last = self._kept()
        if last is None or last.year < today.year:
            return Year(today.year, self.error or (last.error if last else YEARLY_ERROR))
        if self.error is not None and self.error != last.error:
            raise InvalidParameter(
                f"{self.path}: the year {last.year} was begun with an error of {last.error:g}; it "
                f"cannot be {self.error:g} before the next year"
            )
        return last

    def add(self, name: str, night: Night, log_e_value: float, trials: int) -> Year:
        """Add a night of one audit and write the file; the year after it."""
        if not COMMIT.fullmatch(night.commit):
            night = Night(night.day)
        with self._locked():
            year = self.read(date.fromisoformat(night.day))
            year = year.with_night(name, night, log_e_value, trials)
            self._write(year)
        return year

    def renew(self, name: str, today: date) -> None:
        """Start a claim's evidence again, because its bug was fixed."""
        with self._locked():
            year = self.read(today)
            if name in year.claims:
                self._write(year.renewed(name))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time; the lock ends with its process."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_name(self.path.name + ".lock").open("a") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def _kept(self) -> Year | None:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InvalidParameter(f"{self.path}: {error.strerror}; give another file") from None
        try:
            # NaN is refused below; an audit may have lost all its wealth, whose log is -Infinity.
            table = strict_json(content, nan=True)
            if table.pop("format") != FILE_FORMAT:
                raise ValueError
            claims = {name: _evidence(row) for name, row in table.pop("claims").items()}
            return _consistent(_typed(Year, {**table, "claims": claims}))
        except (ValueError, TypeError, KeyError, AttributeError):
            raise InvalidParameter(
                f"{self.path}: not nightly evidence that this version reads; restore it, or give "
                "another file"
            ) from None

    def _write(self, year: Year) -> None:
        table = {"format": FILE_FORMAT, **asdict(year)}
        write_atomically(self.path, (json.dumps(table, indent=1) + "\n").encode())


def _evidence(row: dict[str, Any]) -> Evidence:
    nights = {name: _typed(Night, row[name]) for name in ("last", "before", "since")}
    for night in nights.values():
        if night.day:
            date.fromisoformat(night.day)
        if not COMMIT.fullmatch(night.commit):
            raise ValueError
    return _typed(Evidence, row | nights)


def _typed(kind: type[_Kind], row: dict[str, Any]) -> _Kind:
    """A record of a file.  Errors: ValueError unless all fields are there, of the stated types."""
    hints = get_type_hints(kind)
    if hints.keys() != row.keys():
        raise ValueError
    for name, hint in hints.items():
        value = row[name]
        right = type(value) is hint or (hint is float and type(value) is int)
        if not (right or name == "claims") or value != value:  # NaN alone differs from itself
            raise ValueError
    return kind(**row)


def _consistent(year: Year) -> Year:
    """Errors: ValueError for numbers that no nights give; the bars would not add up to the error.

    Two claims can have the same number if two files were merged.
    """
    rows = year.claims.values()
    counts = [count for row in rows for count in (row.days, row.nights, row.trials)]
    numbers = [row.number for row in rows]
    if not (
        0 < year.error < 1
        and date.min.year <= year.year <= date.max.year
        and len(set(numbers)) == len(numbers)
        and all(0 < number <= year.used for number in numbers)
        and year.used >= 0
        and all(count >= 0 for count in counts)
        and all(row.days <= min(DAYS_A_YEAR, row.nights) for row in rows)
    ):
        raise ValueError
    return year


def _log_sum(first: float, second: float) -> float:
    high = max(first, second)
    return high if high == -math.inf else high + math.log1p(math.exp(min(first, second) - high))
