"""The golden output of a simulation with engines' caches."""

from pathlib import Path

from golden import cases

EXPECTED = Path(__file__).parent / "expected" / "simulate.txt"


def test_simulation_of_engines_matches_golden_output():
    ran = cases.run("simulate fixtures/recordings --cache vllm --cache llama.cpp")
    assert (ran.exit, ran.stdout.decode()) == (0, EXPECTED.read_text("utf-8"))
