"""Compare lore's model of vLLM with vLLM itself, its block manager and an engine that serves: `make oracle-vllm`.

Needs the Python of an environment with vLLM. It prints the first differing sequences, then rows of the guide's table:
the number of requests and the share for which lore's prediction is equal; the exit code is 1 if any differ. `--record`
writes the first answers of the block manager to `answers/`, which `make test` compares without vLLM.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from plugins.engines.oracle.vllm_model import mixed, predicted, predicted_served
from plugins.engines.oracle.vllm_settings import FIRST_SERVED, served

ANSWERS = Path(__file__).parent / "answers" / "vllm.jsonl"
SEVERAL = ANSWERS.with_name("vllm-several.jsonl")  # of models with layers of several kinds
RECORDED = 200  # sequences
SERVED = 100
_SHOWN = 10


def answers(python: str, module: str, count: int, *options: str) -> Iterator[list[int]]:
    """Yield vLLM's answers: the lines of a program, each an array of numbers."""
    command = [python, "-m", f"plugins.engines.oracle.{module}", "--count", str(count), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("["):  # engines log to their output, too
                yield json.loads(line)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")


def compare(name: str, count: int, pairs: Iterable[tuple[int, list[int], list[int]]]) -> bool:
    """Print an oracle's row; return whether all are equal. `pairs`: seeds with the engine's and lore's reads."""
    sequences = requests = equal = differing = 0
    for seed, cached, predictions in pairs:
        sequences += 1
        requests += len(cached)
        equal += sum(read == prediction for read, prediction in zip(cached, predictions, strict=True))
        if cached != predictions and differing < _SHOWN:
            differing += 1
            print(f"{name}, seed {seed}: the engine {cached}, lore {predictions}")
    share = equal / requests if requests else 0.0
    print(f"| {name} | {sequences:,} | {requests:,} | {share:.2%} |", flush=True)
    if sequences < count:
        print(f"{name} answered {sequences:,} of {count:,} sequences", file=sys.stderr)
    return sequences == count and equal == requests


def main() -> int:
    parser = argparse.ArgumentParser(description="compare lore's model of vLLM with vLLM itself")
    parser.add_argument("--python", required=True)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    lines_by_file: dict[Path, list[str]] = {ANSWERS: [], SEVERAL: []}

    def managed(path: Path, *options: str) -> Iterator[tuple[int, list[int], list[int]]]:
        for seed, *cached in answers(arguments.python, "vllm_blocks", arguments.count, *options):
            if len(lines_by_file[path]) < RECORDED:
                lines_by_file[path].append(json.dumps([seed, *cached], separators=(",", ":")) + "\n")
            yield seed, cached, mixed(served(seed)) if path == SEVERAL else predicted(served(seed))

    count = min(SERVED, arguments.count)
    predictions = [FIRST_SERVED, *predicted_served(count)]
    rows = ((seed, cached, predictions[seed + 1]) for seed, *cached in answers(arguments.python, "vllm_served", count))
    is_equal = compare("vLLM 0.32, block manager", arguments.count, managed(ANSWERS))
    is_equal = compare("vLLM 0.32, windows and states", arguments.count, managed(SEVERAL, "--several")) and is_equal
    is_equal = compare("vLLM 0.32, served, memory of 48 blocks", count + 1, rows) and is_equal
    if arguments.record and is_equal:
        for path, lines in lines_by_file.items():
            path.write_text("".join(lines), encoding="utf-8")
    return int(not is_equal)


if __name__ == "__main__":
    sys.exit(main())
