"""When a recording begins, which decides which of two files holds a request that both repeat."""

import pytest

from lore.recording.inputs import inputs, start_of

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
