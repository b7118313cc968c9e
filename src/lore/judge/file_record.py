"""One file's result as bytes: what travels between machines, and what a state folder keeps.

In: a `FileResult`. Out: JSON, an array of its fields in a fixed order; back again. Rules: equal results are equal
bytes; what is decoded adds up to the same as what was encoded; a result's ruling is made of the settings where it is
decoded, so it does not travel. Texts that quote half a surrogate pair, and numbers past 64 bits, are spelled by the
standard library. `VERSION` changes with the fields of a result, or with what they mean. Cost O(findings + turns that
have an id).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from lore.errors import LoreError, Where
from lore.judge.policy import Ruling
from lore.judge.totals import CauseCost, FileResult, Judged
from lore.model.codes import CauseKind, Problem, Reader
from lore.model.results import Finding, Summary, UnrecordedParts, copy_fields

VERSION = 2


class _FaultRecord(Struct, frozen=True, array_like=True):
    """Why a file that was named cannot be judged."""

    message: str
    hint: str
    where: Where | None
    choices: tuple[str, ...]
    exit_code: int


class _ResultRecord(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The fields of `FileResult`; tables whose keys are no texts as pairs, in the order in which they were counted."""

    key: str
    reader: Reader
    summary: Summary
    session: str | None
    whole: bool
    turns: dict[str, int]
    findings: list[Finding]
    judged: list[Judged]
    costs: list[tuple[str, CauseKind, CauseCost]]
    excused: list[tuple[int, int]]
    boundaries: list[tuple[str, str | None]]
    unseen: UnrecordedParts | None
    problems: list[Problem]
    log: list[str]
    failed: bool
    incomplete: bool
    fault: _FaultRecord | None


_DECODER = msgspec.json.Decoder(_ResultRecord)


def encode(result: FileResult) -> bytes:
    """Return a result as JSON."""
    error = result.error
    fault = (
        None if error is None else _FaultRecord(error.message, error.hint, error.where, error.choices, error.exit_code)
    )
    costs = [(*key, cost) for key, cost in result.costs.items()]
    record = copy_fields(_ResultRecord, result, costs=costs, excused=list(result.excused.items()), fault=fault)
    try:
        return msgspec.json.encode(record)
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(msgspec.to_builtins(record), separators=(",", ":")).encode()


def decode(data: bytes, ruling: Callable[[str], Ruling]) -> FileResult:
    """Return the result that these bytes are of; raises ValueError where they are of none.

    `ruling` says what the settings say of the file that has this key.
    """
    try:
        record = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        record = msgspec.convert(json.loads(data), _ResultRecord)
    own: dict[str, Any] = msgspec.structs.asdict(record) | {
        "ruling": ruling(record.key), "turns": Counter(record.turns), "excused": Counter(dict(record.excused)),
        "costs": {(code, kind): cost for code, kind, cost in record.costs},
    }  # fmt: skip
    result = FileResult(**{name: value for name, value in own.items() if name != "fault"})
    if (fault := record.fault) is not None:
        result.error = LoreError(fault.message, hint=fault.hint, where=fault.where, choices=fault.choices)
        result.error.exit_code = fault.exit_code
    return result
