"""`lore mcp`: answer questions of an agent about its sessions, over standard input and output."""

from __future__ import annotations

import sys

from lore.commands import flags
from lore.errors import LoreError, install_hint


def run(redact: flags.Redact = False) -> int:
    """Serve read-only tools to an agent over the Model Context Protocol.

    The tools are spend, sessions, why, check and explain. They read recordings on this machine and change none of
    them. The agent that starts this command writes to its standard input; `lore guide mcp` shows how to register it.

    Needs the extra `mcp`.
    """
    try:
        from lore_plugins.mcp.server import make_server
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("lore"):
            raise
        raise LoreError("lore mcp needs the package mcp, version 2", hint=install_hint("mcp")) from None
    if sys.stdin.isatty():
        sys.stderr.write("lore mcp waits for an agent on standard input; `lore guide mcp` shows how to register it\n")
    make_server(redact=redact).run("stdio")
    return 0
