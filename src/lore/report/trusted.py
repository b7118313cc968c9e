"""Write the result of `lore trust` for a person."""

from __future__ import annotations

from lore.model.results.trust import TrustResult
from lore.report.console import Console, line

_STATES = {
    "approved": "", "changed": " (changed since: it has to be approved again)", "missing": " (it is gone)",
}  # fmt: skip


def write_trusted(result: TrustResult, out: Console) -> None:
    """Write each file with its commands, endpoints and keys."""
    verb = "" if result.action == "listed" else f"{result.action} "
    for file in result.files:
        out.print(line(verb, (file.path, "bold"), _STATES[file.state] if result.action == "listed" else ""))
        for setting in file.settings:
            out.print(line(f"  {setting}"))
        if result.action == "approved" and not file.settings:
            out.print(line("  it names no command, endpoint or key"))
    if result.action == "listed" and not result.files:
        out.print(line("No folder is approved."))
