"""`lore trust`: approve a folder's settings, list approvals, remove an approval."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Annotated

from lore.commands import flags
from lore.commands.common import answer, find_settings, refuse
from lore.compaction.settings import outside_settings
from lore.config import Loaded, settings_in
from lore.errors import LoreError
from lore.model.results.trust import TrustedFile, TrustResult
from lore.recording import corpus
from lore.report.console import Console, line
from lore.trust import Approval, State, approvals, approve, real_path, remove


def run(
    folder: Annotated[
        str | None, "FOLDER", "A folder with settings; default: that of the settings in force here."
    ] = None,
    listing: Annotated[bool, "--list", "List approvals; approve nothing."] = False,
    removing: Annotated[bool, "--remove", "Remove the approval of the folder, which need not exist any more."] = False,
    as_json: flags.AsJson = False, color: flags.Colour = None,
) -> int:  # fmt: skip
    """Approve the commands, endpoints and keys that a folder's settings name.

    Read the file first. `lore compact` and `lore memory` use commands, endpoints and keys only of a file that you name
    (--config, --policy), of lore.toml in your own settings folder (~/.config/lore on Linux), or of a file that you
    approved. A file that changes has to be approved again; one of another user cannot be approved. All other commands
    ignore these settings.
    """
    has_more = removing or folder is not None
    refuse((listing and has_more, "--list lists all approvals", "leave the folder and --remove out"))
    if listing:
        files: list[TrustedFile] = []
        for approval in approvals():
            state, loaded = approval.state(), None
            with suppress(LoreError):  # another version of lore may have approved it
                loaded = settings_in(os.path.dirname(approval.path))
            file = None if loaded is None else loaded.compaction_file
            is_read = state == "approved" and file is not None and real_path(file.path) == approval.path
            files.append(_describe(approval, state, loaded if is_read else None))
        result = TrustResult(action="listed", files=files)
    elif removing:
        result = TrustResult(action="removed", files=_remove(folder or os.curdir))
    else:
        loaded = find_settings(None) if folder is None else settings_in(_folder_of(folder))
        if loaded.compaction_file is None:
            place = "this folder, and in none above it" if folder is None else corpus.show(folder)
            hint = "settings are lore.toml, or [tool.lore] in pyproject.toml"
            raise LoreError(f"there are no settings in {place}", hint=hint)
        approved = _describe(approve(loaded.compaction_file), "approved", loaded)
        result = TrustResult(action="approved", files=[approved])
    return answer(result, write_trusted, as_json=as_json, color=color)


def _folder_of(name: str) -> str:
    """Return a folder; a settings file stands for its folder."""
    return (os.path.dirname(name) or os.curdir) if os.path.isfile(name) else name


def _remove(name: str) -> list[TrustedFile]:
    folder = _folder_of(name)
    spellings = {os.path.abspath(folder), os.path.realpath(folder)}
    removed = remove(lambda path: os.path.dirname(path) in spellings)
    if not removed:
        raise LoreError(f"{corpus.show(name)} is not approved", hint="lore trust --list shows approvals")
    return [_describe(approval, approval.state()) for approval in removed]


def _describe(approval: Approval, state: State, loaded: Loaded | None = None) -> TrustedFile:
    """Return an approved file, with the commands, endpoints and keys that it names."""
    compaction = None if loaded is None else loaded.settings.compaction
    settings = {} if compaction is None else outside_settings(compaction)
    return TrustedFile(corpus.show(approval.path), state, [f"{name}: {value}" for name, value in settings.items()])


_TRUSTED = {
    "approved": "", "changed": " (changed since: it has to be approved again)", "missing": " (it is gone)",
}  # fmt: skip


def write_trusted(result: TrustResult, out: Console) -> None:
    """Write each file with its commands, endpoints and keys."""
    verb = "" if result.action == "listed" else f"{result.action} "
    for file in result.files:
        out.print(line(verb, (file.path, "bold"), _TRUSTED[file.state] if result.action == "listed" else ""))
        for setting in file.settings:
            out.print(line(f"  {setting}"))
        if result.action == "approved" and not file.settings:
            out.print(line("  it names no command, endpoint or key"))
    if result.action == "listed" and not result.files:
        out.print(line("No folder is approved."))
