"""Which settings files may name commands, endpoints and keys.

A `lore.toml` that was found, not named, may be someone else's: of a cloned repository, or of a shared folder. Its
commands, endpoints and keys count only if this user approved the file once, with `lore trust`, and it did not change.
A file in this user's own settings folder needs no approval. One that belongs to another user never counts.

An approval is a file in `trusted` in the folder of `files.state_folder`, which only this user can write to. Its
name is a digest of the path of the settings file; its content is the SHA-256 of that file, a line end, and the path.
An approval is of the settings file, not of the programs that it names.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from lore.errors import LoreError
from lore.files import SettingsFile, WholeFile, ensure_private, replaced, state_folder
from lore.model.limits import APPROVAL_BYTES

FOLDER = "trusted"
State: TypeAlias = Literal["approved", "changed", "missing"]


class Approval(NamedTuple):
    """A settings file that was approved."""

    path: str
    digest: str  # of its content then

    def state(self) -> State:
        """Return whether the file is still as it was approved."""
        try:
            with WholeFile(self.path) as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except (OSError, ValueError):
            return "missing"
        return "approved" if digest == self.digest else "changed"


def refuse_unapproved(file: SettingsFile, names: Iterable[str], user_folder: str, label: str) -> None:
    """Raise LoreError if settings of a file that was found do not count.

    `names` are the settings that would be used, `label` is the file's name in messages.
    """
    used = ", ".join(names)
    if not used:
        return
    path = real_path(file.path)
    is_own = bool(user_folder) and os.path.dirname(path) == os.path.realpath(user_folder)
    fault = _fault(file, is_own=is_own)
    if fault:
        raise LoreError(f"{used} of {label} cannot be used: {fault}", hint=_OTHER_WAYS)
    if is_own:
        return
    folder = _folder()
    approval = None if folder is None else _read(folder / _name(path))
    if approval is None or approval.path != path:
        fault = "you have not approved this file"
    elif approval.digest != hashlib.sha256(file.data).hexdigest():
        fault = "the file changed since you approved it"
    else:
        return
    import shlex  # noqa: PLC0415 - for an error

    hint = f"read it; if you trust it, type: lore trust {shlex.quote(os.path.dirname(path))}"
    raise LoreError(f"{used} of {label} cannot be used: {fault}", hint=hint)


_OTHER_WAYS = "name a file with --config or --policy, if you trust it"


def approve(file: SettingsFile) -> Approval:
    """Approve a settings file as it was read; raises LoreError for one of another user."""
    if fault := _fault(file, is_own=False):
        raise LoreError(f"{file.path} cannot be approved: {fault}", hint=_OTHER_WAYS)
    approval = Approval(real_path(file.path), hashlib.sha256(file.data).hexdigest())
    ensure_private(state_folder(), "approvals")
    place = ensure_private(state_folder() / FOLDER, "approvals") / _name(approval.path)
    try:
        with replaced(str(place), private=True) as output:
            output.write(f"{approval.digest}\n".encode() + os.fsencode(approval.path))
    except OSError as error:
        raise LoreError(f"cannot write {place}: {(error.strerror or str(error)).lower()}") from None
    return approval


def approvals() -> list[Approval]:
    """Return all approvals of this user, by path."""
    folder = _folder()
    if folder is None:
        return []
    candidates = [_read(folder / name) for name in sorted(os.listdir(folder))]
    return sorted(approval for approval in candidates if approval is not None)


def remove(is_meant: Callable[[str], bool]) -> list[Approval]:
    """Remove the approvals of the files that are meant, by their paths; return them."""
    matches = [approval for approval in approvals() if is_meant(approval.path)]
    for approval in matches:
        with suppress(FileNotFoundError):
            os.unlink(state_folder() / FOLDER / _name(approval.path))
    return matches


def real_path(path: str) -> str:
    """Return the absolute path of a settings file, its folder without links: the name by which it is approved."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(folder), name)


def _fault(file: SettingsFile, *, is_own: bool) -> str:
    """Return why a settings file can never count on this machine; empty if it may. Windows is not asked for owners."""
    if not hasattr(os, "geteuid"):
        return ""
    try:
        folder = os.stat(os.path.dirname(os.path.abspath(file.path)))
        path_status = os.lstat(file.path)
    except OSError:
        return "it is gone"
    for what, status in (("it", file.status), ("it", path_status), ("its folder", folder)):
        if status.st_uid != os.geteuid():
            return f"{what} belongs to another user"
    if _can_others_write(file.status, is_own=is_own):
        return "others can write to it"
    if _can_others_write(folder, is_own=is_own):
        return "others can write to its folder"
    return ""


def _can_others_write(status: os.stat_result, *, is_own: bool) -> bool:
    """Return whether others than the owner can write to a file or folder, and that without another approval."""
    # A group may write to an approved file, which has to be approved again then. To a user's own settings, which need
    # no approval, only a group of this user alone may, which has the user's number by convention.
    mode = stat.S_IMODE(status.st_mode)
    return bool(mode & stat.S_IWOTH or (is_own and mode & stat.S_IWGRP and status.st_gid != status.st_uid))


def _folder() -> Path | None:
    """Return the folder of approvals; None if it does not exist yet. Raises LoreError if others can write to it."""
    folder = state_folder() / FOLDER
    if not folder.is_dir():
        return None
    ensure_private(state_folder(), "approvals")
    return ensure_private(folder, "approvals")


def _name(path: str) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()


def _read(place: Path) -> Approval | None:
    try:
        with WholeFile(str(place)) as file:
            digest, separator, path = file.read(APPROVAL_BYTES).partition(b"\n")
    except OSError:
        return None
    approval = Approval(os.fsdecode(path), digest.decode("ascii", "replace"))
    return approval if separator and place.name == _name(approval.path) else None
