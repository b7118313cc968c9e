"""Compare lore's model of SGLang with SGLang's own trees: `make oracle-sglang`.

Needs the Python of an environment with SGLang. It prints the same table as `vllm_agreement`, with a row for each tree.
`--record` writes the first answers to `answers/`, which `make test` compares without SGLang.
"""

import argparse
import json
import sys
from collections.abc import Iterator

from plugins.engines.oracle.sequences import sequence
from plugins.engines.oracle.sglang_model import read
from plugins.engines.oracle.vllm_agreement import ANSWERS, answers, compared

RECORDED = {"unified": 800, "radix": 200, "chunks": 200, "windows": 400, "states": 400}


def main() -> int:
    parser = argparse.ArgumentParser(description="compare lore's model of SGLang with SGLang's own trees")
    parser.add_argument("--python", required=True)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--trees", nargs="*", choices=tuple(RECORDED), default=tuple(RECORDED))
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()

    def pairs(tree: str, kept: list[str]) -> Iterator[tuple[int, list[int], list[int]]]:
        for seed, *cached in answers(given.python, "sglang_tree", given.count, "--tree", tree):
            if len(kept) < RECORDED[tree]:
                kept.append(json.dumps([seed, *cached], separators=(",", ":")) + "\n")
            yield seed, cached, read(sequence(seed), tree)

    alike = True
    for tree in given.trees:
        kept: list[str] = []
        alike = compared(f"SGLang 0.5.23, {tree}", given.count, pairs(tree, kept)) and alike
        if given.record:
            (ANSWERS.parent / f"sglang-{tree}.jsonl").write_text("".join(kept), encoding="utf-8")
    return int(not alike)


if __name__ == "__main__":
    sys.exit(main())
