"""What lore once said wrongly it says rightly: one recording for each class of wrong verdict."""

from __future__ import annotations

import pytest

from cli.running import lore
from faults.misjudged import MISJUDGED, Misjudged


@pytest.mark.parametrize("wrong", [pytest.param(one, id=one.name) for one in MISJUDGED])
def test_what_was_misjudged_is_right(wrong: Misjudged, tmp_path):
    path = tmp_path / "recording.jsonl"
    path.write_bytes(wrong.data)
    simulated, checked = lore("simulate", "--json", str(path)), lore("check", "-v", "--json", str(path))
    row = next(row for row in simulated.json["turns"] if row["turn"] == wrong.turn and row["chain"] == "main")
    causes = [cause for cause in row["causes"] if cause["is_break"]]
    names = [cause["name"] for cause in causes]
    assert not {*names} & {*wrong.never}
    assert (names[0] if names else "") in (wrong.leads or ("",)), names
    assert all(cause["kind"] in wrong.kinds for cause in causes)
    if wrong.lost is not None:
        assert abs((row["lost_tokens"] or 0) - wrong.lost) <= 0.02 * wrong.lost
    assert wrong.exits in (None, checked.code)
    codes = {finding["code"] for finding in checked.json["findings"]}
    assert codes >= {*wrong.says}
    assert not codes & {*wrong.silent}
    own = [finding for finding in checked.json["findings"] if finding["turn"] == wrong.turn]
    assert not {finding["name"] for finding in own if finding["kind"] == "waste"} & {*wrong.never}
    assert all((finding["lost_tokens"] or 0) <= 1.02 * wrong.lost for finding in own if wrong.lost is not None)


# What is misjudged once is not again: each class by the words that its entries' names begin with, and how many.
CLASSES = {
    "a restart is not": 2, "tools cannot have changed": 1, "what was cleared is not lost": 2, "a prompt that shrank": 1,
    "an image is no evidence": 1, "messages cannot push a read": 1, "what was out of reach had not expired": 2,
    "a verdict on": 3, "a model that": 4, "what came since to another model's cache": 1,
    "a request that extends an earlier one": 1, "a router answered elsewhere": 2, "an hour that": 3,
    "tools that are loaded later": 2, "what is too short to be cached": 2, "a compaction of the provider": 1,
    "a read above what stood": 1,
}  # fmt: skip


def test_every_class_of_wrong_verdict_has_its_entries():
    names = [one.name for one in MISJUDGED]
    assert len(names) == len({*names})
    assert {begin: sum(name.startswith(begin) for name in names) for begin in CLASSES} == CLASSES
