"""Files that are unrecognised or cannot be opened."""

import json
import os
import subprocess
import sys

import pytest

from helpers.matrix import crossed
from hostile.making import GOOD, assert_refused

NOT_RECORDINGS = {
    "empty": b"",
    "blank": b" \n\r\n\t\n",
    "only a BOM": b"\xef\xbb\xbf",
    "binary": bytes(range(256)) * 40,
    "NUL": b"\x00" * 5000,
    "text": b"hello\nworld\n",
    "an array": b"[1,2,3]\n",
    "a number": b"5\n",
    "an object of nothing": b'{"a":1}\n',
    "a brace": b"{",
    "braces": b"{" * 5000,
    "brackets": b"[" * 100_000,
    "deep object": b'{"a":' * 100_000,
}


@crossed("name, command", NOT_RECORDINGS, ["fold", "assemble", "check"])
def test_unrecognised_file_is_refused(lore, desk, name, command):
    (desk / "file").write_bytes(NOT_RECORDINGS[name])
    assert_refused(lore(command, "file"))


@pytest.mark.parametrize("name", list(NOT_RECORDINGS))
def test_files_without_a_prompt_are_compared_as_bytes(lore, desk, name):
    (desk / "a").write_bytes(NOT_RECORDINGS[name])
    (desk / "b").write_bytes(NOT_RECORDINGS[name] + b"x")
    ended = lore("diff-prefix", "a", "b", "--json")
    assert ended.code == 0
    assert json.loads(ended.out)["file"]["common_prefix_bytes"] == len(NOT_RECORDINGS[name])


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read everything")
@pytest.mark.parametrize("command", ["fold", "assemble", "check", "diff-prefix"])
def test_file_without_permission_is_refused(lore, desk, command):
    (desk / "secret.jsonl").write_bytes(GOOD)
    (desk / "secret.jsonl").chmod(0)
    assert_refused(lore(command, "secret.jsonl"))


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
@pytest.mark.parametrize("command", ["fold", "assemble", "check", "diff-prefix"])
def test_file_that_cannot_be_opened_is_refused(lore, desk, command):
    (desk / "loop.jsonl").symlink_to("loop.jsonl")
    assert_refused(lore(command, "loop.jsonl"))


@pytest.mark.parametrize("name", ["a\x00b", "x" * 5000, "", "a/b/c", "\udcff", "#1", "a#", "#", "-#1x"])
@pytest.mark.parametrize("command", ["fold", "assemble", "check", "diff-prefix"])
def test_impossible_file_name_is_refused(lore, command, name):
    assert_refused(lore(command, name))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipe_in_a_folder_is_skipped(desk):
    (desk / "folder").mkdir()
    (desk / "folder" / "good.jsonl").write_bytes(GOOD)
    os.mkfifo(desk / "folder" / "pipe.jsonl")
    done = subprocess.run(
        [sys.executable, "-m", "lore", "check", "folder"], capture_output=True, timeout=120, check=False
    )
    assert done.returncode in (0, 3)


def test_unrecognised_files_of_folder_are_counted(lore, desk):
    (desk / "good.jsonl").write_bytes(GOOD)
    for number, data in enumerate(NOT_RECORDINGS.values()):
        (desk / f"odd{number}").write_bytes(data)
    ended = lore("check", ".", "--json")
    assert (ended.code, json.loads(ended.out)["summary"]["skipped"]) == (0, len(NOT_RECORDINGS))
