"""Every input that once broke something, and some made by hand, keeps all the laws."""

from __future__ import annotations

import pytest

from fuzz import mutate, properties, run, samples

SEEDS = sorted(samples.SEEDS.glob("*.bin"))


@pytest.mark.parametrize("seed", SEEDS, ids=[path.stem for path in SEEDS])
def test_a_seed_keeps_the_laws(seed, tmp_path):
    other = seed.with_suffix(".other")
    with run.limit(run.SLOW):  # what hangs must not hang the suite
        broken = properties.examine(seed.read_bytes(), other.read_bytes() if other.exists() else b"", tmp_path)
    assert broken is None  # it raises where a law is broken


@pytest.mark.parametrize("name", samples.INLINE)
def test_a_sample_keeps_the_laws(name, tmp_path):
    assert properties.examine(samples.INLINE[name], samples.ANTHROPIC, tmp_path) is None


def test_the_same_seed_mutates_the_same():
    import random  # noqa: PLC0415 - only here

    made = [mutate.mutate(samples.LORE, samples.CLAUDE, random.Random(n)) for n in range(50)]
    assert made == [mutate.mutate(samples.LORE, samples.CLAUDE, random.Random(n)) for n in range(50)]
    assert len(set(made)) > 40
