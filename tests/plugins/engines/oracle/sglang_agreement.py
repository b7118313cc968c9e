"""Compare lore's model of SGLang with SGLang's own trees: `make oracle-sglang`.

Needs the Python of an environment with SGLang. It prints for each tree the number of requests, the number for which
lore's prediction differs, and the differing sequences; the exit code is 1 if there is one. `--record` writes the first
answers to `answers/`, which `make test` compares without SGLang.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from plugins.engines.oracle.sequences import sequence
from plugins.engines.oracle.sglang_model import read
from plugins.engines.oracle.sglang_settings import settings

HERE = Path(__file__).parent

RECORDED = {"unified": 800, "radix": 200, "chunks": 200, "windows": 400, "states": 400}


def answers(python: str, tree: str, count: int) -> Iterator[list[int]]:
    """Yield SGLang's answers: a seed, then the cached tokens of each request."""
    command = [python, "-m", "plugins.engines.oracle.sglang_tree", "--tree", tree, "--count", str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")


def main() -> int:
    parser = argparse.ArgumentParser(description="compare lore's model of SGLang with SGLang's own trees")
    parser.add_argument("--python", required=True)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--trees", nargs="*", choices=tuple(RECORDED), default=tuple(RECORDED))
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    differing = 0
    for tree in given.trees:
        recorded = RECORDED[tree]
        requests = wrong = 0
        kept: list[str] = []
        for answer in answers(given.python, tree, given.count):
            seed, *cached = answer
            requests += len(cached)
            if len(kept) < recorded:
                kept.append(json.dumps(answer, separators=(",", ":")) + "\n")
            found = read(sequence(seed), tree)
            if found != cached:
                wrong += sum(left != right for left, right in zip(found, cached, strict=True))
                print(
                    f"seed {seed}, {settings(sequence(seed), tree)[1]}: SGLang {cached}, lore {found}", file=sys.stderr
                )
        print(f"SGLang {tree}: {given.count:,} sequences, {requests:,} requests, {wrong:,} differ")
        differing += wrong
        if given.record:
            (HERE / "answers" / f"sglang-{tree}.jsonl").write_text("".join(kept), encoding="utf-8")
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
