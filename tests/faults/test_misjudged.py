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
    codes = {finding["code"] for finding in checked.json["findings"]}
    assert codes >= {*wrong.says}
    assert not codes & {*wrong.silent}
    own = [finding for finding in checked.json["findings"] if finding["turn"] == wrong.turn]
    assert not {finding["name"] for finding in own if finding["kind"] == "waste"} & {*wrong.never}
    assert all((finding["lost_tokens"] or 0) <= 1.02 * wrong.lost for finding in own if wrong.lost is not None)


def test_every_class_of_wrong_verdict_has_its_entry():
    names = [one.name for one in MISJUDGED]
    assert len(names) == len({*names}) >= 20
