"""When a recording begins, which decides which of two files holds a request that both repeat."""

import pytest

from lore.recording.inputs import by_start, inputs, start_of

TIME, SECONDS = b'"timestamp":1767225600.25', 1767225600.25


@pytest.mark.parametrize("before", [0, 3_960, 4_073, 4_090, 5_000, 60_000])
def test_first_time_is_found_at_any_place(before, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{" + b" " * before + TIME + b"}\n")
    (file,) = inputs([str(path)])
    assert start_of(file) == (SECONDS, path.stat().st_size)


def test_text_that_is_no_time_is_passed_over(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"timestamp":"yesterday at noon"' + b" " * 5_000 + b"," + TIME + b"}\n")
    (file,) = inputs([str(path)])
    assert start_of(file)[0] == SECONDS


def test_session_log_precedes_its_summary_agents_copy(tmp_path):
    """The copy begins with the first message; the session's log with a later snapshot of the files."""
    (tmp_path / "s" / "subagents").mkdir(parents=True)
    (tmp_path / "s.jsonl").write_bytes(b'{"timestamp":1767225609.5}\n{' + TIME + b"}\n")
    (tmp_path / "s" / "subagents" / "agent-acompact-1.jsonl").write_bytes(
        b"{" + TIME + b',"agentId":"acompact-1"}\n' + b" " * 99
    )
    assert [file.path for file in by_start(inputs([str(tmp_path)]), lambda file: file)][0] == str(tmp_path / "s.jsonl")
