"""What the store in memory answers to the scenarios of the contract, as text: every other store must answer the same.

`tests/golden/update.py` writes `answers.txt` again.
"""

from contextlib import closing
from pathlib import Path

from lore.store.base import Store
from lore.store.sqlite import Memory
from store.scenarios import ALL

FILE = Path(__file__).with_name("answers.txt")
LONGEST = 300  # characters of a line


def answers() -> str:
    """Return each answer, and the sessions that are different after it."""
    lines: list[str] = []
    for scenario in ALL:
        lines += ["", f"# {scenario.__name__}"]
        with closing(Memory()) as store:
            before: dict[str, str] = {}
            for answer in scenario(store):
                now = sessions(store)
                lines.append(printable(f"{answer}"))
                lines += [f"    {name!r:.60} gone" for name in before if name not in now]
                lines += [printable(f"    {name!r:.60} {now[name]}") for name in now if now[name] != before.get(name)]
                before = now
    return "\n".join([*lines[1:], ""])


def sessions(store: Store) -> dict[str, str]:
    """Return what is stored of each session."""
    described: dict[str, str] = {}
    for row in store.list():
        notes = f"leaf {row.leaf_id}, {row.metadata!r}, project {row.project_id!r:.60}, parent {row.parent_session_id}"
        times = f"created {row.created_at}, updated {row.updated_at}, used {row.used_at!r}, turns {row.turns}"
        described[row.session_id] = f"{row.head}, {row.size} bytes, {notes}, {times}"
    return described


def printable(text: str) -> str:
    """Return a line that can be printed."""
    return text[:LONGEST].encode("ascii", "backslashreplace").decode()
