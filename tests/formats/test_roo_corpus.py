"""Real tasks of Roo Code: requests and tokens counted again with plain json."""

import json
import shutil
from pathlib import Path

import pytest

from formats.recordings import judged, of_each, recordings, used

ROO = recordings("cline-roo/*-ui_messages.json")
FIELDS = ("uncached_tokens", "read_tokens", "output_tokens")

pytestmark = pytest.mark.corpus


def roo_counted(path: Path) -> tuple[int, list[int]]:
    """What a person would count in the records of a screen: requests, and the bills of those that have one."""
    requests = [
        json.loads(record["text"]) for record in json.loads(path.read_bytes()) if record.get("say") == "api_req_started"
    ]
    bills = [request for request in requests if "tokensIn" in request]
    usage = [0, 0, 0]
    for bill in bills:
        whole, read = bill["tokensIn"], bill["cacheReads"]
        if bill.get("apiProtocol") == "openai":
            assert read <= whole  # inclusive
            whole -= read + bill["cacheWrites"]
        usage = [count + more for count, more in zip(usage, (whole, read, bill["tokensOut"]), strict=True)]
    return len(requests), usage


@pytest.mark.parametrize("is_joined", [False, True])
@of_each(ROO)
def test_counts_equal_those_of_plain_json(path: Path, is_joined: bool, tmp_path: Path) -> None:
    """The screen's file alone, and the task that it belongs to."""
    for name in ("ui_messages.json", "api_conversation_history.json", "task_metadata.json")[: 3 if is_joined else 1]:
        file = path.with_name(path.name.replace("ui_messages.json", name))
        if file.exists():
            shutil.copyfile(file, tmp_path / name)
    turns, expected = roo_counted(path)
    paths = [tmp_path, tmp_path / "ui_messages.json"]
    for name in paths:
        summary = judged(name)
        usage = used(paths[1])
        assert (summary.turns, usage.turns, summary.problems, summary.files) == (turns, turns, 0, 1)
        assert [getattr(usage, field) for field in FIELDS] == expected
