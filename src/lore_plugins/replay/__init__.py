"""Replay: `lore replay` sends a recording to a server and compares its reads with the prediction."""

from lore.commands import LOOK, CommandRow

COMMAND = CommandRow(
    LOOK, "replay", "Send a recording to a server, and compare what it read from its cache with the prediction.", (
        ("replay capture.jsonl --server http://127.0.0.1:8080 --dialect openai-chat", "into an engine here"),
        ("replay session.jsonl --server http://127.0.0.1:8000 --layouts user,persist", "which tail reads most"),
        ("replay capture.jsonl --server https://api.anthropic.com --dry-run", "estimates the cost; sends nothing"),
    ),
    "lore_plugins.replay.command:run", schemas={"replay": "lore_plugins.replay.results:Replayed"},
)  # fmt: skip
