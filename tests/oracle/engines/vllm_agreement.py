"""Compare lore's model of vLLM with vLLM's own block manager: `make oracle-vllm`.

In: the Python of an environment that has vLLM, how many sequences. Out: how many requests were asked and of how many
lore's model reads otherwise, the first of these in full, and a row of the table in the guide; exit code 1 where there
is one. With `--record` the first answers are written to `answers/`, which `make test` compares without vLLM.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from oracle.engines.vllm_settings import block_of, capacity_of, predicted, served

ANSWERS = Path(__file__).parent / "answers" / "vllm.jsonl"
RECORDED = 200  # sequences
_SHOWN = 10


def answers(python: str, count: int) -> Iterator[list[int]]:
    """Yield vLLM's answers: a seed, then the cached tokens of each request."""
    command = [python, "-m", "oracle.engines.vllm_blocks", "--count", str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("["):  # vLLM logs to its output
                yield json.loads(line)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")


def main() -> int:
    parser = argparse.ArgumentParser(description="compare lore's model of vLLM with vLLM's block manager")
    parser.add_argument("--python", required=True)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    sequences = requests = equal = shown = 0
    kept: list[str] = []
    for answer in answers(given.python, given.count):
        seed, *cached = answer
        drawn = served(seed)
        found = predicted(drawn)
        sequences += 1
        requests += len(cached)
        equal += sum(left == right for left, right in zip(found, cached, strict=True))
        if found != cached and shown < _SHOWN:
            shown += 1
            print(f"seed {seed}, {capacity_of(drawn)} blocks of {block_of(drawn)}: vLLM {cached}, lore {found}")
        if sequences <= RECORDED:
            kept.append(json.dumps(answer, separators=(",", ":")) + "\n")
    share = equal / requests if requests else 0.0
    print(f"| vLLM 0.32, block manager | {sequences:,} | {requests:,} | {share:.2%} |")
    if sequences < given.count:
        print(f"vLLM answered {sequences:,} of {given.count:,} sequences", file=sys.stderr)
        return 1
    if given.record:
        ANSWERS.write_text("".join(kept), encoding="utf-8")
    return int(equal < requests)


if __name__ == "__main__":
    sys.exit(main())
