"""`lore check --report parquet=FOLDER`: the option, and writing tables while recordings are judged."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lore.cli import common

if TYPE_CHECKING:
    from collections.abc import Callable

    from lore.config import Loaded
    from lore.model.ledger import Ledger
    from lore.recording.inputs import Input
    from lore.recording.opening import Options
    from lore.run.checking.check import CheckOutcome

PARQUET = "parquet"


def folder_among(reports: list[str]) -> tuple[list[str], str | None]:
    """Take `parquet=FOLDER` out of what --report asks for; raises LoreError where it cannot be written."""
    folders = [text.partition("=")[2] for text in reports if text.partition("=")[0] == PARQUET]
    if not folders:
        return reports, None
    from lore.errors import LoreError
    from lore.run.spending.tables import refuse

    if len(folders) > 1 or folders[0] in ("", "-"):
        raise LoreError("tables are written into one folder", hint=f"--report {PARQUET}=FOLDER")
    refuse(folders[0])
    return [text for text in reports if text.partition("=")[0] != PARQUET], folders[0]


def judge_into(
    folder: str, judge: Callable[[Callable[[Input, Ledger | None], None]], CheckOutcome], options: Options,
    loaded: Loaded, *, redact: bool,
) -> CheckOutcome:  # fmt: skip
    """Write the tables of recordings while they are judged, and say what is in them."""
    from lore.recording import corpus
    from lore.report.plain import counted
    from lore.run.spending.ledgers import Ledgers, folder_of
    from lore.run.spending.tables import shortened, write_judged

    ledgers = Ledgers(options, folder_of(common.surroundings()), dated=common.dated_rules(loaded), now=time.time())
    outcome, done = write_judged(folder, judge, ledgers, redact=redact)
    if done is not None:
        rows = ", ".join(f"{counted(number, 'row')} of {name}" for name, number in done.rows.items())
        common.tell(f"{corpus.show(folder)}: {rows}, {done.bytes / 1e6:,.2f} MB")
        if short := shortened(outcome.result.findings):
            common.tell(f"{corpus.show(folder)}: {short}")
    return outcome
