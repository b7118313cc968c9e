"""The fuzzer's first inputs: fixtures, its own seeds, real recordings if present, and these."""

import json
import os
from pathlib import Path

from helpers.strategies import write
from hostile.captured import WRITERS, capture
from hostile.formats import FORMATS, recording

ROOT = Path(__file__).resolve().parents[2]
SEEDS = Path(__file__).resolve().parent / "corpus"
CORPUS = Path(os.environ.get("LORE_CORPUS") or ROOT.parent / "shared" / "corpus")
LARGEST = 24 * 1024  # of a bigger recording its beginning is taken, to the end of a line

CHAT = (
    b'{"model":"gpt-5","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"hi"},'
    b'{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"read",'
    b'"arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"out"}],"tools":[{"type":"function",'
    b'"function":{"name":"read","parameters":{}}}]}\n'
)
RECORDS = Path(__file__).resolve().parents[1] / "hostile" / "records"  # of each format records that hold every field


def _recorded(path: Path) -> bytes:
    """Return a file of records as the lines that it stands for."""
    parts = json.loads(path.read_text("utf-8"))
    return b"".join(write(one) + b"\n" for part in ("start", "records", "end") for one in parts[part])


INLINE: dict[str, bytes] = {
    **{path.stem: _recorded(path) for path in sorted(RECORDS.glob("*.json"))},
    **{f"small-{kind}": recording(kind) for kind in FORMATS},
    **{f"capture-{kind}": capture(kind) for kind in WRITERS},
    "chat": CHAT, "empty": b"",
}  # fmt: skip


def gather() -> dict[str, bytes]:
    """Return the first inputs by name."""
    found = dict(INLINE)
    for folder, pattern in ((ROOT / "fixtures", "**/*.json*"), (SEEDS, "*.bin"), (CORPUS, "c*/*.jsonl")):
        found |= {str(path): _beginning(path) for path in sorted(folder.glob(pattern))}
    return found


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)
    return data if len(data) <= LARGEST else data[: data.rfind(b"\n", 0, LARGEST) + 1] or data[:LARGEST]
