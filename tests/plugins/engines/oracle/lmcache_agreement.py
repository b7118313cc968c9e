"""Compare lore's model of LMCache with LMCache itself, on a CPU: `make oracle-lmcache`.

Needs the Python of an environment with LMCache. It prints the same table as `vllm_agreement`.
"""

import argparse
import json
import sys
from pathlib import Path

from plugins.engines.oracle.lmcache_model import predicted
from plugins.engines.oracle.vllm_agreement import answers, compared

ANSWERS = Path(__file__).parent / "answers" / "lmcache.jsonl"
RECORDED = 300  # sequences


def main() -> int:
    parser = argparse.ArgumentParser(description="compare lore's model of LMCache with LMCache itself")
    parser.add_argument("--python", required=True)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    found = list(answers(given.python, "lmcache_chunks", given.count))
    wanted = predicted(given.count)
    alike = compared("LMCache 0.5.6", given.count, ((seed, cached, wanted[seed]) for seed, *cached in found))
    if given.record and alike:
        kept = [json.dumps(answer, separators=(",", ":")) + "\n" for answer in found[:RECORDED]]
        ANSWERS.write_text("".join(kept), encoding="utf-8")
    return int(not alike)


if __name__ == "__main__":
    sys.exit(main())
