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
from plugins.engines.oracle.vllm_agreement import ANSWERS, answers, compare

RECORDED = {"unified": 800, "radix": 200, "chunks": 200, "windows": 400, "states": 400}


def main() -> int:
    parser = argparse.ArgumentParser(description="compare lore's model of SGLang with SGLang's own trees")
    parser.add_argument("--python", required=True)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--trees", nargs="*", choices=tuple(RECORDED), default=tuple(RECORDED))
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()

    def pairs(tree: str, lines: list[str]) -> Iterator[tuple[int, list[int], list[int]]]:
        for seed, *cached in answers(arguments.python, "sglang_tree", arguments.count, "--tree", tree):
            if len(lines) < RECORDED[tree]:
                lines.append(json.dumps([seed, *cached], separators=(",", ":")) + "\n")
            yield seed, cached, read(sequence(seed), tree)

    is_equal = True
    for tree in arguments.trees:
        lines: list[str] = []
        is_equal = compare(f"SGLang 0.5.23, {tree}", arguments.count, pairs(tree, lines)) and is_equal
        if arguments.record:
            (ANSWERS.parent / f"sglang-{tree}.jsonl").write_text("".join(lines), encoding="utf-8")
    return int(not is_equal)


if __name__ == "__main__":
    sys.exit(main())
