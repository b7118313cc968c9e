"""Tools for agents over the Model Context Protocol: `lore mcp`."""

from lore.commands import LOOK, CommandRow

COMMAND = CommandRow(
    LOOK, "mcp", "Serve read-only tools to an agent over the Model Context Protocol.", (
        ("mcp", "is started by an agent; `lore guide mcp` shows how to register it"),
        ("mcp --redact", "answers without content of sessions"),
    ),
    "lore_plugins.mcp.command:run",
)  # fmt: skip
