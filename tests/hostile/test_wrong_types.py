"""A value of a wrong type at any place of a record stops no command, and no dialect.

`records/` has a file for each format: records that hold every field, between a start and an end that are read. An `@`
in a text is replaced by the number of the record, so that none is taken for a copy of another one.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.matrix import some
from helpers.strategies import write
from hostile.making import JUDGING
from hostile.wrong import WRONG, places, replaced
from lore.model.turn import Memo
from lore.prompt.dialects import DIALECTS

FILES = sorted((Path(__file__).parent / "records").glob("*.json"))
SESSIONS = ("lore", "claude-code")
COMPARING = (("check", "--json"), ("diff-prefix", "--json", "--no-tokens"))
STEPS = some([13, 1])  # one in this number


def spoiled(records: list[Any], step: int) -> list[Any]:
    """Return the records with wrong values at their places, one in `step` of them."""
    every = ((record, path, wrong) for record in records for path in places(record) for wrong in WRONG)
    return [replaced(record, path, wrong) for number, (record, path, wrong) in enumerate(every) if not number % step]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_wrong_type_stops_no_command(lore, desk, file, step):
    parts = json.loads(file.read_text("utf-8"))
    lines = [*parts["start"], *spoiled(parts["records"], step), *parts["end"]]
    written = [write(line).replace(b'@"', b'%d"' % number) for number, line in enumerate(lines)]
    (desk / "log.jsonl").write_bytes(b"\n".join(written) + b"\n")
    for command in JUDGING if file.stem in SESSIONS else COMPARING:
        assert lore(*command, "log.jsonl").code in (0, 1, 3), command


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("dialect", ["openai-responses", "gemini", "bedrock"])
def test_wrong_type_in_body_is_written_unchanged(dialect, step):
    (file,) = [file for file in FILES if file.stem == dialect]
    shape = DIALECTS[dialect]
    for line in spoiled([json.loads(file.read_text("utf-8"))["records"][0]["request"]], step):
        prompt = shape.parse(write(line), "wire", Memo())
        again = shape.parse(shape.write(prompt), "wire", Memo())
        assert [(one.path, one.kind, one.data) for one in again] == [(one.path, one.kind, one.data) for one in prompt]
