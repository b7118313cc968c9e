"""Compressed files are read unpacked; a plain file of the same name is read instead."""

import gzip

import pytest
import zstandard

from formats.codex import plain
from lore.errors import LoreError
from lore.formats.contents import unpack
from lore.recording import corpus
from lore.recording.inputs import inputs
from lore.run.checking.check import check


def packed(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def read(path) -> bytes:
    return b"".join(corpus.open_head(str(path)).data)


@pytest.mark.parametrize("pack", [packed, gzip.compress])
@pytest.mark.parametrize("cut", [0, 1, 700])
def test_frames_one_after_another_are_one_file(tmp_path, cut, pack):
    data = plain().data()
    (tmp_path / "a.jsonl.zst").write_bytes(pack(data[:cut]) + pack(data[cut:]) + pack(b""))
    assert read(tmp_path / "a.jsonl.zst") == data


def test_plain_file_supersedes_compressed_one(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(plain().data())
    (tmp_path / "a.jsonl.zst").write_bytes(packed(plain().data()))
    (tmp_path / "b.jsonl.zst").write_bytes(packed(plain().meta("t-2").data()))
    expected = [str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl.zst")]
    assert [file.path for file in inputs([str(tmp_path)])] == expected
    assert [file.path for file in inputs([str(tmp_path / "*.zst")])] == expected[1:]
    assert [file.path for file in inputs([str(tmp_path / "a.jsonl.zst")])] == [str(tmp_path / "a.jsonl.zst")]


@pytest.mark.parametrize(
    "damage", [lambda data: data[:20], lambda data: data + b"junk", lambda data: data[:9] + b"\0" * 40]
)
@pytest.mark.parametrize("pack", [packed, gzip.compress])
def test_damaged_file_is_a_problem_with_its_name(tmp_path, damage, pack):
    file = tmp_path / "a.jsonl.zst"
    file.write_bytes(damage(pack(plain().data() * 50)))
    before = file.read_bytes()
    with pytest.raises(LoreError, match="a.jsonl.zst"):
        read(file)
    result = check([str(tmp_path)]).result
    assert [problem.code for problem in result.problems] == ["LORE215"]
    assert file.read_bytes() == before


@pytest.mark.parametrize("pack", [packed, gzip.compress])
@pytest.mark.parametrize("size", [1, 200_000])
def test_content_before_a_torn_end_is_read(tmp_path, size, pack):
    lines = plain().data().splitlines(keepends=True)
    last = pack(b"".join(lines[3:])) + pack(b"x" * size)
    (tmp_path / "a.jsonl.zst").write_bytes(pack(b"".join(lines[:3])) + last[:-3])
    result = check([str(tmp_path)]).result
    assert (result.summary.turns, {problem.code for problem in result.problems}) == (2, {"LORE202"})
    with pytest.raises(LoreError, match="ends too soon"):
        read(tmp_path / "a.jsonl.zst")


def test_what_expands_to_gigabytes_comes_in_pieces(tmp_path):
    file = tmp_path / "a.jsonl.zst"
    file.write_bytes(packed(b"x" * 64_000_000))
    sizes = [len(piece) for piece in unpack([file.read_bytes()], "zstandard")]
    assert sum(sizes) == 64_000_000
    assert max(sizes) <= 34_000_000
