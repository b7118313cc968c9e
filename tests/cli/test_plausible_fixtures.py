"""The recordings under `fixtures/recordings` have the usage that the published rules give their requests."""

from __future__ import annotations

import pytest

from cli.running import lore
from helpers.plausible import FOLDER, recordings


def test_recordings_are_those_that_the_script_writes():
    assert {name: FOLDER.joinpath(name).read_bytes() for name in recordings()} == recordings()


def test_prompt_sent_anew_is_predicted_from_the_first_count():
    """The first request is counted, the others are measured in bytes: both have to give the same size."""
    found = lore("simulate", "--all", "--json", str(FOLDER.parent / "captures" / "har" / "breaks.har")).json
    for turn in found["turns"][:3]:
        assert turn["predicted"]["write_tokens"] == pytest.approx(turn["billed"]["write_tokens"], rel=0.03)


@pytest.mark.parametrize("name", ["stable.jsonl", "clock_in_system.jsonl"])
def test_prediction_equals_the_recorded_usage(name):
    found = lore("simulate", "--all", "--json", str(FOLDER / name)).json
    for turn in found["turns"]:
        read, billed = turn["predicted"]["read_tokens"], turn["billed"]["read_tokens"]
        assert abs(read - billed) <= 3
        whole = billed + turn["billed"]["write_tokens"] + turn["billed"]["uncached_tokens"]
        predicted = read + turn["predicted"]["write_tokens"] + turn["predicted"]["uncached_tokens"]
        assert predicted == pytest.approx(whole, rel=0.03)
    assert found["agreement"]["within_2_percent"] == 3
