"""Folders and archives as one recording; archives that are hostile."""

import json
import os
import random
import shutil
import struct
import zipfile

import pytest

from formats.captures import CAPTURES
from hostile import child
from lore.formats.captures.inspect_log import InspectArchive
from lore.model.codes import Problem
from lore.recording import packed
from lore.recording.base import UnrecognisedError
from lore.recording.corpus import open_head
from lore.recording.inputs import inputs
from lore.recording.opening import Options
from lore.run.checking.check import check
from lore.testing import everything

EVENT = {
    "event": "model",
    "call": {"request": {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "x"}]}},
}
SAMPLE = json.dumps({"id": 1, "epoch": 1, "events": [EVENT]})


def archive(path, members, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as zipped:
        zipped.writestr("header.json", "{}")
        for name, data in members:
            zipped.writestr(name, data)
    return str(path)


def problems_and_count(path):
    """Return the problems of an archive and the number of its exchanges."""
    reads = everything(InspectArchive(), b"".join(open_head(path).data))
    problems = [read.value.message for read in reads if isinstance(read.value, Problem)]
    return problems, len(reads) - len(problems)


def test_folder_of_pairs_is_one_input(tmp_path):
    shutil.copytree(CAPTURES / "body-pairs" / "stable", tmp_path / "bodies")
    shutil.copy(CAPTURES / "claude-events" / "stable.jsonl", tmp_path / "bodies")
    files = inputs([str(tmp_path)])
    assert [os.path.basename(file.path) for file in files] == ["bodies", "stable.jsonl"]
    assert files[0].size > 4000


def test_findings_name_the_file_in_the_folder():
    folder = CAPTURES / "body-pairs" / "breaks"
    result = check([str(folder)]).result
    assert result.summary.files == 1
    assert {os.path.dirname(finding.path) for finding in result.findings} == {str(folder)}
    assert all(finding.path.endswith(".request.json") and finding.line == 1 for finding in result.findings)


def test_folder_without_completions_is_not_a_recording(tmp_path):
    for name in ("turn1.json", "turn2.json"):
        (tmp_path / name).write_text(json.dumps(EVENT["call"]["request"]))
    assert not packed.find_pack(str(tmp_path))[1]


def test_files_removed_while_reading_are_a_problem(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.request.json").write_text(json.dumps(EVENT["call"]["request"]))
    stream = packed.folder_stream(str(tmp_path))
    first = next(stream)
    (tmp_path / "b.request.json").unlink()
    assert b'"fault":"no such file or directory"' in first + b"".join(stream)


def test_oversized_archive_member_is_refused_alone(tmp_path):
    bomb = b'{"id":1,"events":[' + b" " * 40_000_000 + b"]}"
    path = archive(
        tmp_path / "a.eval", [("samples/a.json", SAMPLE), ("samples/b.json", bomb), ("samples/c.json", SAMPLE)]
    )
    problems, count = problems_and_count(path)
    assert (len(problems), count) == (1, 2)
    assert "200 times" in problems[0]


def test_a_member_longer_than_any_line_is_refused(tmp_path):
    chunk = random.Random(1).randbytes(1024 * 1024)
    with zipfile.ZipFile(tmp_path / "a.eval", "w", zipfile.ZIP_STORED) as zipped:
        zipped.writestr("header.json", "{}")
        with zipped.open("samples/a.json", "w") as member:
            for _ in range(65):
                member.write(chunk)
    problems, count = problems_and_count(str(tmp_path / "a.eval"))
    assert (count, problems) == (0, ["samples/a.json: longer than 64 MiB"])


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_known_compressions_are_read(tmp_path, method):
    assert problems_and_count(archive(tmp_path / "a.eval", [("samples/a.json", SAMPLE)], method)) == ([], 1)


def _patched(path, local, central, value):
    """Overwrite two bytes of the last member's headers."""
    data = bytearray(path.read_bytes())
    for sign, offset in ((b"PK\x03\x04", local), (b"PK\x01\x02", central)):
        at = data.rfind(sign)
        data[at + offset : at + offset + 2] = struct.pack("<H", value)
    path.write_bytes(data)


def test_an_unknown_compression_is_a_problem(tmp_path):
    path = archive(tmp_path / "a.eval", [("samples/b.json", SAMPLE), ("samples/a.json", SAMPLE)])
    _patched(tmp_path / "a.eval", 8, 10, 97)
    problems, count = problems_and_count(path)
    assert (len(problems), count) == (1, 1)
    assert "compression" in problems[0]


def test_an_encrypted_member_is_a_problem(tmp_path):
    path = archive(tmp_path / "a.eval", [("samples/b.json", SAMPLE), ("samples/a.json", SAMPLE)])
    _patched(tmp_path / "a.eval", 6, 8, 1)
    problems, count = problems_and_count(path)
    assert (len(problems), count) == (1, 1)
    assert "encrypted" in problems[0]


def test_torn_archive_is_a_problem(tmp_path):
    whole = (CAPTURES / "inspect" / "stable.eval").read_bytes()
    for cut in range(4, len(whole), 37):
        (tmp_path / "a.eval").write_bytes(whole[:cut])
        problems, count = problems_and_count(str(tmp_path / "a.eval"))
        assert (len(problems), count) == (1, 0), cut


def test_archive_directory_beyond_limit_is_not_read(tmp_path):
    path = archive(tmp_path / "a.eval", [("samples/a.json", SAMPLE)])
    data = bytearray((tmp_path / "a.eval").read_bytes())
    at = data.rfind(b"PK\x05\x06")
    data[at + 12 : at + 16] = struct.pack("<I", 900_000_000)
    (tmp_path / "a.eval").write_bytes(data)
    assert "directory" in problems_and_count(path)[0][0]


def test_archives_without_recordings_are_skipped(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as zipped:
        zipped.writestr("word/document.xml", "<x/>")
    (tmp_path / "b.jsonl").write_text(json.dumps(EVENT["call"]["request"]) + "\n")
    summary = check([str(tmp_path)]).result.summary
    assert (summary.files, summary.skipped, summary.problems) == (1, 1, 0)
    with pytest.raises(UnrecognisedError, match=r"\(a zip archive\)\nhint: unpack it first"):
        Options().open(str(tmp_path / "a.zip"))


def test_a_large_sample_is_read_within_bounds(tmp_path, monkeypatch):
    """A sample is in memory once in pieces and once whole, never in many slices."""
    words = random.Random(3)
    text = "".join(words.choice("abcdefgh ") for _ in range(1 << 20))
    event = json.dumps(
        {"event": "model", "call": {"request": {"model": "m", "messages": [{"role": "user", "content": text}]}}}
    )
    body = '{"id":1,"epoch":1,"events":[' + ",".join([event] * 50) + "]}"
    path = archive(tmp_path / "a.eval", [("samples/a.json", body)], zipfile.ZIP_STORED)
    monkeypatch.chdir(tmp_path)
    ended = child.lore("check", path, "--json")
    assert ended.json["summary"]["turns"] == 50
    assert ended.peak < 200 * child.MEGABYTE
