"""JSON Lines: one finding a line (`lore schema finding`), then the sums (`lore schema check`, without findings)."""

from __future__ import annotations

import msgspec
from rich.console import Console

from lore.model.results import Checked
from lore.report.json_report import render


class JsonLines:
    """Every finding as a line of its own, notes too."""

    mixes = False

    def write(self, result: Checked, out: Console, *, verbose: bool) -> None:
        for one in result.findings:
            out.file.write(render(one) + "\n")
        out.file.write(render(msgspec.structs.replace(result, findings=[])) + "\n")
