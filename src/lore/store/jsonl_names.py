"""Names of the files of a folder of logs.

In: ids. Out: names that stay in the folder, and that differ wherever the ids do, also where a file system folds case
or normalises Unicode: lower-case ASCII letters, digits, `_`, `-` and `.` stand for themselves, every other byte of
UTF-8 is written as `%` and two hex digits, capitals (so a capital letter never stands for itself). A long name keeps
its beginning, and ends with `~` and the SHA-256 of the id. An id is read from a header, never from a name.
"""

from __future__ import annotations

from hashlib import sha256

LOG, CHECKPOINT, TORN = ".jsonl", ".checkpoint", ".torn"
STAMP, BINDINGS = "lore-store.json", "bindings"
NEW = ".new"  # ends the name of a file that is being written; it begins with a dot, as no other does
LONGEST, KEPT = 200, 120  # bytes: file systems take 255, with the endings

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-.")
_DEVICES = {"con", "prn", "aux", "nul"} | {f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10)}


def name_of(session_id: str) -> str:
    """Return the name of a session's files, without its ending."""
    data = session_id.encode("utf-8", "surrogatepass")
    name = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in data)
    if name.startswith(".") or name.partition(".")[0] in _DEVICES or name == BINDINGS:
        name = f"%{data[0]:02X}{name[1:]}"
    return name if len(name) <= LONGEST else f"{name[:KEPT]}~{sha256(data).hexdigest()}"


def is_log(name: str) -> bool:
    """Tell whether a file of the folder is a session's log by its name."""
    return name.endswith(LOG) and not name.startswith(".") and name != BINDINGS + LOG
