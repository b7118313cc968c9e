"""A simulation of engines' caches prints what it printed before."""

from __future__ import annotations

from pathlib import Path

from golden import cases

EXPECTED = Path(__file__).parent / "expected" / "simulate.txt"


def test_simulation_of_engines_prints_what_it_printed_before():
    ran = cases.run("simulate fixtures/recordings --cache vllm --cache llama.cpp")
    assert (ran.exit, ran.stdout.decode()) == (0, EXPECTED.read_text("utf-8"))
