"""Compare lore's model of an engine with the engine itself: `make oracle-vllm`, `oracle-sglang`, `oracle-lmcache`.

    python -m plugins.engines.oracle.agreement ENGINE --python PYTHON [--count N] [--record]

PYTHON is that of an environment with the engine. It prints the first differing sequences, then rows of the guide's
table: the number of requests and the share for which lore's prediction is equal; the exit code is 1 if any differ.
`--record` writes the first answers to `answers/`, which `make test` compares without the engine.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from plugins.engines.oracle import models
from plugins.engines.oracle.sequences import sequence
from plugins.engines.oracle.vllm_settings import FIRST_SERVED, served

ANSWERS = Path(__file__).parent / "answers"
SERVED = 100  # sequences of an engine that serves
_SHOWN = 10


class Oracle(NamedTuple):
    """A program that prints an engine's reads of generated sequences, and lore's predictions of them.

    `predict` gets a number of sequences, and returns a function from a seed to its predictions.
    """

    title: str
    command: tuple[str, ...]
    predict: Callable[[int], Callable[[int], list[int]]]
    file: str = ""  # of recorded answers, in `answers/`
    recorded: int = 0
    most: int | None = None


def _sglang(tree: str, recorded: int) -> Oracle:
    def predict(_: int) -> Callable[[int], list[int]]:
        return lambda seed: models.of_sglang(sequence(seed), tree)

    return Oracle(f"SGLang 0.5.23, {tree}", ("sglang_tree", "--tree", tree), predict, f"sglang-{tree}.jsonl", recorded)


def _served(count: int) -> Callable[[int], list[int]]:
    predictions = [FIRST_SERVED, *models.of_served_vllm(count)]  # the first has the seed -1
    return lambda seed: predictions[seed + 1]


ORACLES = {
    "vllm": (
        Oracle("vLLM 0.32, block manager", ("vllm_blocks",),
               lambda _: lambda seed: models.of_vllm(served(seed)), "vllm.jsonl", 200),
        Oracle("vLLM 0.32, windows and states", ("vllm_blocks", "--several"),
               lambda _: lambda seed: models.of_vllm_layers(served(seed)), "vllm-several.jsonl", 200),
        Oracle("vLLM 0.32, served, memory of 48 blocks", ("vllm_served",), _served, most=SERVED),
    ),
    "lmcache": (
        Oracle("LMCache 0.5.6", ("lmcache_chunks",), lambda count: models.of_lmcache(count).__getitem__,
               "lmcache.jsonl", 300),
    ),
    "sglang": tuple(_sglang(tree, recorded) for tree, recorded in (
        ("unified", 800), ("radix", 200), ("chunks", 200), ("windows", 400), ("states", 400),
    )),
}  # fmt: skip


def answers(python: str, command: tuple[str, ...], count: int) -> Iterator[list[int]]:
    """Yield an engine's answers: the lines of a program, each an array of a seed and reads."""
    module, *options = command
    words = [python, "-m", f"plugins.engines.oracle.{module}", "--count", str(count), *options]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("["):  # engines log to their output, too
                yield json.loads(line)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {process.returncode}")


def compare(oracle: Oracle, python: str, count: int) -> tuple[bool, list[str]]:
    """Print an oracle's row; return whether all reads are equal, and the first answers as lines."""
    count = min(oracle.most or count, count)
    predict, lines = oracle.predict(count), list[str]()
    sequences = requests = equal = differing = 0
    for seed, *cached in answers(python, oracle.command, count):
        if len(lines) < oracle.recorded:
            lines.append(json.dumps([seed, *cached], separators=(",", ":")) + "\n")
        predictions = predict(seed)
        sequences += seed >= 0
        requests += len(cached)
        equal += sum(read == prediction for read, prediction in zip(cached, predictions, strict=True))
        if cached != predictions and differing < _SHOWN:
            differing += 1
            print(f"{oracle.title}, seed {seed}: the engine {cached}, lore {predictions}")
    share = equal / requests if requests else 0.0
    print(f"| {oracle.title} | {sequences:,} | {requests:,} | {share:.2%} |", flush=True)
    if sequences < count:
        print(f"{oracle.title} answered {sequences:,} of {count:,} sequences", file=sys.stderr)
    return sequences == count and equal == requests, lines


def main() -> int:
    parser = argparse.ArgumentParser(description="compare lore's model of an engine with the engine itself")
    parser.add_argument("engine", choices=ORACLES)
    parser.add_argument("--python", required=True)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    is_equal = True
    for oracle in ORACLES[arguments.engine]:
        agrees, lines = compare(oracle, arguments.python, arguments.count)
        is_equal = is_equal and agrees
        if arguments.record and oracle.file:
            (ANSWERS / oracle.file).write_text("".join(lines), encoding="utf-8")
    return int(not is_equal)


if __name__ == "__main__":
    sys.exit(main())
