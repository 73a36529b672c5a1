"""The durable record of every charge against one private table.

One SQLite file holds an append-only chain of lines: the terms, then charges, completions and
unprotected looks. Each line's head is the SHA-256 of the head before it and its own text, so an
altered, removed or re-ordered line shows, and a gist that carries a head proves which chain it
came from. The ledger is evidence, not enforcement: whoever holds the file can replace it.

A charge is durable before it returns (rollback journal, ``synchronous=EXTRA``, which is safe on
network disks too). It stays spent whatever happens afterwards; nothing is retried under it.
"""

from __future__ import annotations

import hashlib
import json
import math
import operator
import os
import secrets
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpgist.errors import ArtefactError, BudgetExceeded, DataError, DpgistError, PrivacyError
from dpgist.privacy.accounting import epsilon_of, mu_from_units, units_of
from dpgist.privacy.plan import Budget, Relation

FORMAT = 1
_WAIT_SECONDS = 120
_MEMORY = ":memory:"


@dataclass(frozen=True, kw_only=True)
class LedgerStamp:
    """Where a release stands in its ledger; travels with the gist."""

    ledger_id: str
    ledger_name: str
    sequence: int
    head: str
    in_memory: bool = False


@dataclass(frozen=True, kw_only=True)
class LedgerLine:
    """One line of the chain. ``body`` holds its kind and whatever belongs to it."""

    sequence: int
    body: dict[str, Any]
    head: str


class Ledger:
    """An open ledger. Make one with :meth:`create`, :meth:`open` or :meth:`in_memory`.

    Privacy: holds public facts only: terms, charges, names of methods, digests of releases.
    """

    def __init__(self, connection: sqlite3.Connection, where: str) -> None:
        self._connection, self._where = connection, where
        self._terms = self.entries()[0].body

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        name: str,
        epsilon: float,
        delta: float,
        relation: Relation | str,
        max_rows_per_person: int = 1,
    ) -> Ledger:
        """Start a new ledger file; an existing file is never touched.

        Privacy: fixes the terms and the cap; reads no rows.
        """
        terms = _terms(
            name,
            Budget(epsilon=epsilon, delta=delta, relation=Relation(relation)),
            max_rows_per_person,
        )
        path = Path(path)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644))
        except FileExistsError:
            raise DataError(f"{path} exists; a ledger is never overwritten") from None
        except OSError as error:
            raise DataError(f"cannot create a ledger at {path}: {error.strerror}") from None
        return cls(_new_chain(_connect(str(path.absolute())), terms), str(path))

    @classmethod
    def in_memory(cls, *, name: str, budget: Budget, max_rows_per_person: int) -> Ledger:
        """A ledger that lives as long as the process; its record survives only in the gist."""
        terms = _terms(name, budget, max_rows_per_person)
        return cls(_new_chain(_connect(_MEMORY), terms), _MEMORY)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """Open an existing ledger and verify its chain."""
        if not Path(path).is_file():
            raise DataError(f"no ledger at {path}; make one with: dpgist ledger create")
        with open(path, "rb") as file:
            if file.read(16) != b"SQLite format 3\x00":
                raise ArtefactError(f"{path} is not a dpgist ledger")
        return cls(_connect(str(Path(path).absolute())), str(path))

    # What was agreed at creation

    @property
    def ledger_id(self) -> str:
        return str(self._terms["ledger_id"])

    @property
    def name(self) -> str:
        return str(self._terms["name"])

    @property
    def relation(self) -> Relation:
        return Relation(self._terms["relation"])

    @property
    def epsilon(self) -> float:
        return float(self._terms["epsilon"])

    @property
    def delta(self) -> float:
        return float(self._terms["delta"])

    @property
    def max_rows_per_person(self) -> int:
        return int(self._terms["max_rows_per_person"])

    @property
    def cap_units(self) -> int:
        """mu^2 that may be spent in all, in units of 2^-60; epsilon and delta alone decide it."""
        return units_of(Budget(epsilon=self.epsilon, delta=self.delta))

    # What has happened since

    def entries(self) -> list[LedgerLine]:
        """All lines, after checking the chain; ArtefactError if it is broken."""
        with self._reading():
            rows = self._connection.execute(
                "SELECT sequence, body, head FROM lines ORDER BY sequence"
            ).fetchall()
        return _verified(rows, self._where)

    def spent_units(self) -> int:
        """mu^2 charged so far, finished or not, in units."""
        return _spent(self.entries())

    def spent_epsilon(self) -> float:
        """Epsilon spent at the ledger's delta, rounded up."""
        return epsilon_of(mu_from_units(self.spent_units()), self.delta)

    def remaining_epsilon(self) -> float:
        """The largest epsilon one more release could still have here, rounded down."""
        spent = self.spent_units()
        return _epsilon_left(self.cap_units - spent, self.delta) if spent else self.epsilon

    def check_terms(self, budget: Budget, *, name: str, max_rows_per_person: int) -> None:
        """Refuse a release that this ledger was not made for."""
        asked = {
            "name": name,
            "relation": str(budget.relation),
            "delta": budget.delta,
            "max_rows_per_person": max_rows_per_person,
        }
        for term, value in asked.items():
            if self._terms[term] != value:
                raise PrivacyError(
                    f"the ledger {self._where} was made for {term} {self._terms[term]!r}, this "
                    f"release says {value!r}; use its terms or another ledger"
                )

    def check_room(self, units: int) -> None:
        """Refuse, without writing, a charge that would not fit."""
        _check_room(units, _spent(self.entries()), self.cap_units, self.epsilon, self.delta)

    def charge(self, units: int, *, what: dict[str, Any]) -> LedgerStamp:
        """Reserve mu^2 durably. Only after this returns may a row be read.

        Guarantee: the sum of all charges fits the cap, over any number of processes (see
        :func:`~dpgist.privacy.accounting.fits`); the cap on mu^2 is a valid privacy filter even if
        later releases depend on earlier ones.
        """
        if units <= 0:
            raise ValueError("a charge must be positive")
        body = {"kind": "charge", "units": units, "time": _now(), **what}
        line = self._append(body, limit=True)
        return LedgerStamp(
            ledger_id=self.ledger_id,
            ledger_name=self.name,
            sequence=line.sequence,
            head=line.head,
            in_memory=self._where == _MEMORY,
        )

    def finish(self, stamp: LedgerStamp, *, digest: str) -> None:
        """Note that the release under this charge came to an end. No time: it would tell n.

        What was paid for is not given up because of a note: if it cannot be written, this warns.
        """
        try:
            self._append({"kind": "released", "charge": stamp.sequence, "digest": digest})
        except DpgistError:
            with suppress(Warning):  # where warnings are errors, too
                warnings.warn(
                    f"the ledger {self._where} could not note the end of the release that was "
                    f"charged in line {stamp.sequence}: it will list it as never released",
                    stacklevel=2,
                )

    def note_look(self, what: str) -> None:
        """Note an unprotected look at private rows (evaluation, report): outside the guarantee."""
        self._append({"kind": "unprotected look", "what": what, "time": _now()})

    def unfinished(self) -> list[int]:
        """Sequence numbers of charges that never came to a release; they stay spent."""
        lines = self.entries()
        done = {line.body["charge"] for line in lines if line.body["kind"] == "released"}
        charges = [line.sequence for line in lines if line.body["kind"] == "charge"]
        return [sequence for sequence in charges if sequence not in done]

    def _append(self, body: dict[str, Any], *, limit: bool = False) -> LedgerLine:
        try:
            with self._writing():
                lines = self.entries()
                if limit:
                    _check_room(
                        body["units"], _spent(lines), self.cap_units, self.epsilon, self.delta
                    )
                line = _next_line(lines, body)
                _insert(self._connection, line)
        except sqlite3.Error as error:
            raise PrivacyError(
                f"the ledger {self._where} cannot be written ({error}); nothing was read"
            ) from None
        return line

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One exclusive transaction: nobody can charge between our look and our line."""
        self._connection.execute("BEGIN EXCLUSIVE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise ArtefactError(f"{self._where} is not a readable ledger ({error})") from None


def _terms(name: str, budget: Budget, max_rows_per_person: int) -> dict[str, Any]:
    max_rows_per_person = operator.index(max_rows_per_person)
    if max_rows_per_person < 1:
        raise ValueError(f"max_rows_per_person must be at least 1, got {max_rows_per_person}")
    units_of(budget)  # refuses what is too small to be counted
    return {
        "kind": "terms",
        "format": FORMAT,
        "ledger_id": secrets.token_hex(16),
        "name": name,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "relation": str(budget.relation),
        "max_rows_per_person": max_rows_per_person,
        "time": _now(),
    }


def _connect(path: str) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None)
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("PRAGMA synchronous=EXTRA")
    except sqlite3.Error as error:
        raise ArtefactError(f"{path} is not a readable ledger ({error})") from None
    return connection


def _new_chain(connection: sqlite3.Connection, terms: dict[str, Any]) -> sqlite3.Connection:
    connection.execute("BEGIN EXCLUSIVE")
    connection.execute(
        "CREATE TABLE lines (sequence INTEGER PRIMARY KEY, body TEXT NOT NULL, head TEXT NOT NULL)"
    )
    _insert(connection, _next_line([], terms))
    connection.execute("COMMIT")
    return connection


def _insert(connection: sqlite3.Connection, line: LedgerLine) -> None:
    connection.execute(
        "INSERT INTO lines VALUES (?, ?, ?)", (line.sequence, _text(line.body), line.head)
    )


def _next_line(lines: list[LedgerLine], body: dict[str, Any]) -> LedgerLine:
    before = lines[-1].head if lines else ""
    return LedgerLine(sequence=len(lines), body=body, head=_head(before, len(lines), _text(body)))


def _head(before: str, sequence: int, text: str) -> str:
    return hashlib.sha256(f"{before}\n{sequence}\n{text}".encode()).hexdigest()


def _text(body: dict[str, Any]) -> str:
    return json.dumps(body, sort_keys=True, separators=(",", ":"))


def _verified(rows: list[tuple[int, str, str]], where: str) -> list[LedgerLine]:
    lines: list[LedgerLine] = []
    before = ""
    for position, (sequence, text, head) in enumerate(rows):
        if sequence != position or head != _head(before, sequence, text):
            raise ArtefactError(f"the ledger {where} was altered: line {position} breaks the chain")
        lines.append(LedgerLine(sequence=sequence, body=json.loads(text), head=head))
        before = head
    if not lines or lines[0].body.get("kind") != "terms" or lines[0].body["format"] != FORMAT:
        raise ArtefactError(f"{where} is not a dpgist ledger of format {FORMAT}")
    return lines


def _spent(lines: list[LedgerLine]) -> int:
    return sum(line.body["units"] for line in lines if line.body["kind"] == "charge")


def _check_room(units: int, spent: int, cap: int, epsilon: float, delta: float) -> None:
    if spent + units <= cap:
        return
    would_be = epsilon_of(mu_from_units(spent + units), delta)
    left = _epsilon_left(cap - spent, delta) if spent else epsilon
    raise BudgetExceeded(
        f"this release would bring epsilon to {would_be:.4g} of {epsilon:g} (delta={delta:g}); "
        f"there is room for one of epsilon {left:.4g} at most. "
        "No row was read"
    )


def _epsilon_left(units: int, delta: float) -> float:
    """Epsilon that so many units buy, rounded down to four figures."""
    if units <= 0:
        return 0.0
    epsilon = epsilon_of(math.sqrt(units) * 2.0**-30, delta) * (1 - 1e-6)
    if epsilon <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 3)
    return math.floor(epsilon / step) * step


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
