"""`lore statusline` without the command framework, whose import takes longer than the answer may.

Reads plain arguments, standard input, what was kept; prints one line; starts the judge as a process of its own where
the log holds more than was judged. Everything else (help, --json, --install, an argument that is none of these) is left
to the command.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from lore.files import cache_root
from lore.report.status_line import PARTS
from lore.run.live.statusline import StatusRequest, answer

STDIN_LIMIT, STDIN_SECONDS = 1024 * 1024, 0.5  # tmux leaves standard input open and says nothing there
_WIDEST = 1_000


def quick(args: Sequence[str]) -> str | None:
    """Return the line that `lore statusline ARGS` prints; None: the command has to answer."""
    request = _request(args)
    folder = status_folder()
    if request is None or not folder:
        return None
    given = b"" if request.name else standard_input()
    if request.width is None:
        request = request._replace(width=_width(os.environ.get("COLUMNS", "")))
    if "--color" not in args and "--no-color" not in args:
        wanted = bool(given.strip()) or bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()
        request = request._replace(colour=wanted and not os.environ.get("NO_COLOR"))
    answered = answer(request, given, _current(), folder, time.time())
    if answered.behind:
        start([sys.executable, "-P", "-m", "lore", "statusline", "--refresh", "--", answered.behind])
    return answered.line + "\n"


def status_folder() -> str:
    """Return where is kept what was read; empty where nothing says where programs keep such things."""
    home = os.path.expanduser("~")
    root = cache_root(os.environ, "" if home == "~" else home, sys.platform)
    return os.path.join(root, "lore", "status") if root else ""


def _current() -> str:
    """Return the current folder; empty where it is gone."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _request(args: Sequence[str]) -> StatusRequest | None:
    request, left = StatusRequest(), list(args)
    while left:
        word, _, value = left.pop(0).partition("=")
        if word in ("--color", "--no-color", "--redact") and not value:
            change = {"redact": True} if word == "--redact" else {"colour": word == "--color"}
            request = request._replace(**change)
        elif word in ("--format", "--width"):
            value = value or (left.pop(0) if left else "")
            parts, width = parts_of(value), _width(value)
            if (parts if word == "--format" else width) is None:
                return None
            request = request._replace(parts=parts) if word == "--format" else request._replace(width=width)
        elif word.startswith("-") or not word or request.name:
            return None
        else:
            request = request._replace(name=word if not value else f"{word}={value}")
    return request


def parts_of(text: str) -> tuple[str, ...] | None:
    """Return the parts that `--format` names; None where one is unknown, or none is named."""
    parts = tuple(dict.fromkeys(filter(None, text.replace(",", " ").split())))
    return parts if parts and all(part in PARTS for part in parts) else None


def _width(text: str) -> int | None:
    return min(int(text), _WIDEST) if text.isascii() and text.isdigit() and int(text) > 0 else None


def standard_input() -> bytes:
    """Read what Claude Code writes; nothing where a terminal, or nobody, is at the other end."""
    if sys.stdin is None or sys.stdin.isatty():
        return b""
    data, until = b"", time.monotonic() + STDIN_SECONDS
    try:
        descriptor = sys.stdin.fileno()
        while len(data) < STDIN_LIMIT:
            if sys.platform != "win32":  # where no pipe can be waited for
                import select

                if not select.select([descriptor], [], [], max(0.0, until - time.monotonic()))[0]:
                    break
            piece = os.read(descriptor, 65_536)
            if not piece:
                break
            data += piece
    except (OSError, ValueError):
        return data
    return data


def start(command: list[str]) -> None:
    """Start a process that goes on when this one has ended, and says nothing."""
    try:
        if sys.platform == "win32" or not hasattr(os, "posix_spawn"):
            import subprocess

            flags = getattr(subprocess, "DETACHED_PROCESS", 0)
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,  # noqa: S603 - lore itself
                             stderr=subprocess.DEVNULL, creationflags=flags)  # fmt: skip
            return
        silent = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
        try:
            os.posix_spawn(command[0], command, os.environ, file_actions=silent, setsid=True)
        except NotImplementedError:  # a system without setsid there
            os.posix_spawn(command[0], command, os.environ, file_actions=silent, setpgroup=0)
    except (OSError, ValueError):
        return
