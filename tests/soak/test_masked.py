"""What is masked in files is listed; in real recordings that is passwords in URLs, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.credentials import SAMPLES
from soak import masked


def test_a_value_is_listed_once_with_what_stands_before_it(tmp_path, capsys):
    texts = [SAMPLES["github"].text, f"say {SAMPLES['github'].text}", "0a1b2c3d" * 8, "/home/ann/src/a.py"]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    assert masked.main([str(tmp_path)]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first == f"      4  '{{\"text\": \"ghp_' '{SAMPLES['github'].text[4:]}'"
    assert last.startswith("1 distinct values in 1 files, ")


@pytest.mark.soak
def test_in_real_recordings_nothing_is_masked_but_passwords_in_urls(corpus: Path, capsys):
    """No identifier, no digest, no path: the five values are of a test of URLs with passwords."""
    masked.main([str(corpus)])
    *values, last = capsys.readouterr().out.splitlines()
    assert [value for value in values if "://" not in value] == []
    assert last.startswith("5 distinct values")
