"""What a rule is, and the table of rules.

A rule looks at one pair of successive turns, or at the problems of one recording, and says what it finds; a turn
rule follows a whole chain and speaks at its end, so that what holds for every turn is said once.
Rules: pure; every finding has a code of `lore.model.codes`; severity follows from the code's kind.

How to add one: write a class with the members of `Rule`, add it to `RULES` in `lore.judge.rules` (or
publish it under the entry-point group `lore.rules`), add its codes with a page each.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Protocol

import msgspec
from msgspec import Struct

from lore.judge.pairs import Pair
from lore.model.codes import CODES, SEVERITY, CauseKind, Problem, Reader, actor_of, fix_of
from lore.model.evidence import Evidence
from lore.model.results import Finding
from lore.model.turn import Turn


class Place(Struct, frozen=True):
    """Where findings are reported: the argument as given joined with the path below it.

    `key` is the same place on every machine: relative to the project, its parts joined by `/`; empty: the path.
    `reader` is who reads them: the author of an agent, or its user.
    """

    path: str
    key: str = ""
    reader: Reader = "author"

    def of(self, turn: Turn) -> Place:
        """Return where a turn's findings are reported: in its own file, where the recording is a folder of files."""
        if not turn.file.startswith(self.path):
            return self
        below = turn.file[len(self.path) :]
        return Place(turn.file, (self.key or self.path) + below.replace("\\", "/"), self.reader)


class Rule(Protocol):
    """One kind of judgement."""

    def pair(self, pair: Pair, place: Place) -> Iterable[Finding]:
        """Judge two successive turns of one chain."""
        ...

    def problems(self, problems: list[Problem], counts: dict[str, int], place: Place) -> Iterable[Finding]:
        """Judge what was wrong with one recording: the problems kept, and how many of each code there were."""
        ...


class TurnRule(Protocol):
    """A judgement of the turns of one chain, taken one by one; made anew for each chain.

    To add one: publish a class without arguments under `TURN_RULES` in `lore.judge.rules`, where those of others stand.
    """

    def turn(self, turn: Turn, pair: Pair | None) -> None:
        """Take the next turn, and what came of comparing it with the one before; costs O(what is new)."""
        ...

    def findings(self, place: Place) -> Iterable[Finding]:
        """Say what was found, when the chain has ended."""
        ...


# Names that lore gives to chains in their order, and the number of a message: both move when turns are inserted.
_NUMBERED = re.compile(r"(?:main|(?:chain|utility|agent)-\d+)\Z")
_MESSAGE = re.compile(r"^(messages|input|contents)\[\d+\]")


def lasting_chain(chain: str | None) -> str | None:
    """Return a chain's name where the recording gives it, None where lore counted."""
    return None if chain is None or _NUMBERED.match(chain) else chain


def lasting_path(json_path: str | None) -> str | None:
    """Return a path without the number of its message."""
    return None if json_path is None else _MESSAGE.sub(r"\1[]", json_path)


def fingerprint(code: str, path: str, chain: str | None, json_path: str | None) -> str:
    """Return 16 hex digits that stay the same when findings, lines and turns come and go.

    Of what was found only its kind and place count: evidence quotes figures, dates and text that move. Two of
    the same kind at the same place share a fingerprint, so whoever compares counts them.
    """
    parts = "\x00".join((code, path, lasting_chain(chain) or "", lasting_path(json_path) or ""))
    return hashlib.sha256(parts.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def finding(
    code: str, place: Place, evidence: Evidence, *, kind: CauseKind | None = None, at: Turn | None = None,
    **fields: object,
) -> Finding:  # fmt: skip
    """Make a finding; name, severity, who can act, fix and fingerprint follow from the code, the kind and the fields.

    `kind` is the code's own where none is given; `at` is the turn that a finding about a whole chain is shown at. The
    message is left to whoever reports it.
    """
    if at is not None:
        place = place.of(at)
        fields |= {
            "line": at.line, "chain": at.chain, "turn": at.number, "dialect": at.dialect, "fidelity": at.fidelity,
        }  # fmt: skip
    known = CODES[code]
    kind = kind or known.kind
    made = Finding(
        code, known.name, kind, SEVERITY[kind], place.path, "", fix_of(code, place.reader), evidence=evidence,
        actor=actor_of(code, kind, place.reader), **fields,  # pyright: ignore[reportArgumentType]
    )  # fmt: skip
    digest = fingerprint(code, place.key or place.path, made.chain, made.json_path)
    return msgspec.structs.replace(made, fingerprint=digest)
