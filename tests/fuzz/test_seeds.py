"""Every input that once broke something, and some made by hand, keeps all the laws."""

import pytest

from fuzz import mutate, properties, run, samples
from helpers.each import each
from helpers.matrix import some
from lore.formats.lines import LineCutter
from lore.formats.registry import READERS

SEEDS = sorted(samples.SEEDS.glob("*.bin"))
HEAVY = ("nested-too-deeply", "cassette-of-many-keys")  # seconds each: `make soak`
CASES = [pytest.param(path, id=path.stem, marks=[pytest.mark.soak] if path.stem in HEAVY else []) for path in SEEDS]


@pytest.mark.parametrize("seed", CASES)
def test_seed_keeps_the_laws(seed, tmp_path):
    other = seed.with_suffix(".other")
    with run.limit(run.SLOW):  # what hangs must not hang the suite
        broken = properties.examine(seed.read_bytes(), other.read_bytes() if other.exists() else b"", tmp_path)
    assert broken is None  # it raises where a law is broken


@pytest.mark.parametrize("seed", CASES)
@each(READERS)
def test_seed_keeps_the_laws_with_short_limits(reader, seed, monkeypatch):
    monkeypatch.setattr(LineCutter, "limit", 30)
    assert properties.examine_reader(reader, seed.read_bytes()) is None


def test_failing_input_is_shrunk_and_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "FOUND", tmp_path / "found")

    def examine(data: bytes, other: bytes) -> None:
        assert b"zz" not in data or b"y" not in other, "both"

    signature = run.broken(lambda: examine(b"zz", b"y"))
    assert signature is not None
    path = run.save(signature, b"abc\nzz\ndef" * 9, b"x\ny\n", examine)
    assert (path.read_bytes(), path.with_suffix(".other").read_bytes()) == (b"zz", b"y")


@pytest.mark.parametrize("name", some(samples.INLINE, 8))
def test_sample_keeps_the_laws(name, tmp_path):
    assert properties.examine(samples.INLINE[name], samples.CHAT, tmp_path) is None


def test_the_same_seed_mutates_the_same():
    import random  # noqa: PLC0415 - only here

    both = samples.INLINE["lore"], samples.INLINE["claude-code"]
    made = [mutate.mutate(*both, random.Random(n)) for n in range(50)]
    assert made == [mutate.mutate(*both, random.Random(n)) for n in range(50)]
    assert len(set(made)) > 40
