"""The recording proxy: `lore record` writes down what a program's clients send to models."""

from lore.cli import LOOK, CommandRow

COMMAND = CommandRow(
    LOOK, "record", (
        ("record -- python agent.py", "what a program's clients send to models, as a capture"),
        ("record --live -- claude", "with a verdict for each request as it falls"),
        ("record --listen 8787 -o capture.jsonl", "of agents that are started elsewhere, until Ctrl-C"),
    ),
    "lore_plugins.record.command:run", runs=True, schemas={"record": "lore_plugins.record.results:RecordResult"},
)  # fmt: skip
