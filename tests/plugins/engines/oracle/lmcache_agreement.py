"""Compare lore's model of LMCache with LMCache itself, on a CPU: `make oracle-lmcache`.

Needs the Python of an environment with LMCache. It prints the same table as `vllm_agreement`.
"""

import argparse
import json
import sys
from pathlib import Path

from plugins.engines.oracle.lmcache_model import predicted
from plugins.engines.oracle.vllm_agreement import answers, compare

ANSWERS = Path(__file__).parent / "answers" / "lmcache.jsonl"
RECORDED = 300  # sequences


def main() -> int:
    parser = argparse.ArgumentParser(description="compare lore's model of LMCache with LMCache itself")
    parser.add_argument("--python", required=True)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    reads = list(answers(arguments.python, "lmcache_chunks", arguments.count))
    predictions = predicted(arguments.count)
    is_equal = compare("LMCache 0.5.6", arguments.count, ((seed, cached, predictions[seed]) for seed, *cached in reads))
    if arguments.record and is_equal:
        lines = [json.dumps(answer, separators=(",", ":")) + "\n" for answer in reads[:RECORDED]]
        ANSWERS.write_text("".join(lines), encoding="utf-8")
    return int(not is_equal)


if __name__ == "__main__":
    sys.exit(main())
