"""GitHub annotations: workflow commands, worst first.

GitHub shows ten annotations of each level in a step and drops the rest silently, so no more are written, and a notice
counts the others. Findings of one cause and place are one annotation: otherwise one long recording would hide the
others. Characters that would end a command are escaped (`%`, CR, LF; `:` and `,` in properties).

Source: GitHub's documentation of workflow commands.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable
from pathlib import Path

from lore.files import current_folder
from lore.model.mask import mask
from lore.report.forms.registry import TextReport
from lore.report.forms.terminal import Reported, command_of, merge_findings
from lore.report.plain import counted, path_below, visible
from lore.report.sentences.findings import describe_cost_and_fix, split_message

SHOWN = 10
_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


def _commands(result: Reported, verbose: bool) -> Iterable[str]:  # noqa: FBT001 - of `TextReport`
    """Yield the commands; the last counts the findings without one."""
    merged_findings = merge_findings(result.findings, verbose=verbose)
    by_level = {name: [pair for pair in merged_findings if pair[0].severity == name] for name in _LEVELS}
    is_cut = any(len(findings) > SHOWN for findings in by_level.values())
    hidden: list[str] = []
    for name, findings in by_level.items():
        room = SHOWN - (name == "note" and is_cut)  # the count is a notice, too
        for finding, turns in findings[:room]:
            fields = {"file": posixpath.normpath(mask(path_in_repository(finding.path)))}
            if finding.line is not None:
                fields["line"] = str(finding.line)
            fields["title"] = f"{finding.code} {finding.name}"
            escaped = {key: _escape(text).replace(":", "%3A").replace(",", "%2C") for key, text in fields.items()}
            properties = ",".join(f"{key}={text}" for key, text in escaped.items())
            what = split_message(finding.message)[0]  # the step summary has the grounds
            message = (
                f"{turns and f'{turns}: '}{what}{'' if what.endswith('…') else '.'} {describe_cost_and_fix(finding)}"
            )
            yield f"::{_LEVELS[name]} {properties}::{_escape(message)}"
        if len(findings) > room:
            hidden.append(counted(len(findings) - room, name))
    if hidden:
        text = f"{', '.join(hidden)} more: GitHub shows {SHOWN} of each level; the step summary lists them"
        yield f"::notice title={command_of(result)}::{_escape(text)}"


GITHUB = TextReport(_commands, can_share_stdout=True)


def path_in_repository(path: str) -> str:
    """Return the path of a file relative to the repository that holds the current folder, else the path unchanged.

    That is the one that a workflow of GitHub checked out, or the nearest folder above with `.git`; without one, the
    path is from the current folder.
    """
    folder = current_folder()
    if not folder or not os.path.lexists(full_path := os.path.join(folder, path)):
        return path
    parents = (folder, *map(str, Path(folder).parents))
    root = os.environ.get("GITHUB_WORKSPACE") or next(
        (parent for parent in parents if os.path.lexists(os.path.join(parent, ".git"))), folder
    )
    relative_path = path_below(os.path.abspath(full_path), root)
    return path if os.path.isabs(relative_path) else relative_path.replace(os.sep, "/")


def _escape(text: str) -> str:
    return visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
