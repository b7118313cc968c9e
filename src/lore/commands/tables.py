"""`lore check --report parquet=FOLDER`: tables that are written while recordings are judged."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lore.commands import common

if TYPE_CHECKING:
    from collections.abc import Callable

    from lore.model.ledger import Ledger
    from lore.recording.inputs import Input
    from lore.run.checking.check import CheckOutcome

TablesTarget = tuple[str, str]  # form and folder


def tables_among(reports: list[str]) -> tuple[list[str], TablesTarget | None]:
    """Take the tables out of what --report asks for; raises LoreError if they have no folder, or several."""
    if not reports:
        return reports, None
    from lore.errors import LoreError
    from lore.run.spending.tables import table_forms

    forms = table_forms()
    wanted = [(form, folder) for form, _, folder in (text.partition("=") for text in reports) if form in forms]
    if not wanted:
        return reports, None
    form, folder = wanted[0]
    if len(wanted) > 1 or folder in ("", "-"):
        raise LoreError("tables are written into one folder", hint=f"--report {form}=FOLDER")
    return [text for text in reports if text.partition("=")[0] not in forms], (form, folder)


def judge_into(
    target: TablesTarget, judge: Callable[[Callable[[Input, Ledger | None], None]], CheckOutcome], *, redact: bool
) -> CheckOutcome:  # fmt: skip
    """Write the tables of recordings while they are judged, and say what is in them."""
    from lore.judge.totals import FINDINGS_KEPT
    from lore.recording import corpus
    from lore.run.spending.tables import write_tables

    form, folder = target
    outcome, done = write_tables(form, folder, judge, redact=redact)
    if done:
        common.tell(f"{corpus.show(folder)}: {done}")
    kept = Counter(finding.severity for finding in outcome.result.findings)
    if done and max(kept.values(), default=0) >= FINDINGS_KEPT:
        common.tell(f"{corpus.show(folder)}: findings holds the first {FINDINGS_KEPT:,} of each severity")
    return outcome
