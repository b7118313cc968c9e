"""Recordings about which lore once said something wrong get the right answer: `misjudged.toml` has one row for each."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from cli.running import lore

HERE = Path(__file__).parent
ROWS: dict[str, dict[str, Any]] = tomllib.loads((HERE / "misjudged.toml").read_text("utf-8"))
KINDS = ["expected", "unattributable", "waste"]


@pytest.mark.parametrize("name", ROWS)
def test_misjudged_recording_gets_the_right_verdict(name):
    row, path = ROWS[name], HERE / "misjudged" / f"{name}.jsonl"
    never, lost = {*row.get("never", ())}, row.get("lost")
    turns = lore("simulate", "--json", str(path)).json["turns"]
    turn = next(turn for turn in turns if turn["turn"] == row["turn"] and turn["chain"] == "main")
    causes = [cause for cause in turn["causes"] if cause["is_break"]]
    names = [cause["name"] for cause in causes]
    assert not never & {*names}
    assert (names[0] if names else "") in row.get("leads", [""]), names
    assert all(cause["kind"] in row.get("kinds", KINDS) for cause in causes)
    checked = lore("check", "-v", "--json", str(path))
    assert checked.code == row.get("exits", checked.code)
    codes = {finding["code"] for finding in checked.json["findings"]}
    assert codes >= {*row.get("says", ())}
    assert not codes & {*row.get("silent", ())}
    turn_findings = [finding for finding in checked.json["findings"] if finding["turn"] == row["turn"]]
    assert not never & {finding["name"] for finding in turn_findings if finding["kind"] == "waste"}
    if lost is not None:
        assert abs((turn["lost_tokens"] or 0) - lost) <= 0.02 * lost
        assert all((finding["lost_tokens"] or 0) <= 1.02 * lost for finding in turn_findings)


def test_each_row_has_a_recording():
    assert {path.stem for path in (HERE / "misjudged").iterdir()} == {*ROWS}
