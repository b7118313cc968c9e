"""Compare lore's model of llama.cpp's server with the server: `make oracle-llama`.

In: how many sequences. Out: how many requests were asked, and of how many the server's `cache_n` is not what lore's
model reads, the first of each session in full; exit code 1 where there is one. With `--record` the first answers are
written to `answers/`, which `make test` compares without a server.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
from pathlib import Path

from oracle.engines.llama_server import start, stop
from oracle.engines.llama_settings import TOGETHER, asked, read, setting_of

ANSWERS = Path(__file__).parent / "answers" / "llama.jsonl"
RECORDED = 35  # sessions


def cached(session: int) -> list[int]:
    """Return the server's `cache_n` of each request of a session."""
    url = start(None, "-c", "8192", "-b", "512", "-ub", "512", *setting_of(session).server)
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    found: list[int] = []
    for each in asked(session):
        body: dict[str, object] = {
            "prompt": each.tokens, "n_predict": each.generated, "logit_bias": [[each.token, 1000]], "top_k": 1,
            "samplers": ["top_k"], "ignore_eos": True, "cache_prompt": True, "return_tokens": True,
        }  # fmt: skip
        if each.slot is not None:
            body["id_slot"] = each.slot
        connection.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        assert answer["tokens"] == [each.token] * each.generated, answer
        found.append(answer["timings"]["cache_n"])
    connection.close()
    stop(url)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="compare lore's model of llama.cpp's server with the server")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    requests = wrong = 0
    kept: list[str] = []
    sessions = -(-given.count // TOGETHER)
    for session in range(sessions):
        answer, found = cached(session), read(session)
        requests += len(answer)
        differing = [place for place, pair in enumerate(zip(answer, found, strict=True)) if pair[0] != pair[1]]
        wrong += len(differing)
        if differing:
            place = differing[0]
            print(f"session {session} {setting_of(session).server} request {place}: llama.cpp {answer[place]}, "
                  f"lore {found[place]}", file=sys.stderr)  # fmt: skip
        if len(kept) < RECORDED:
            kept.append(json.dumps([session, *answer], separators=(",", ":")) + "\n")
    print(f"llama.cpp: {sessions * TOGETHER:,} sequences, {requests:,} requests, {wrong:,} differ")
    if given.record:
        ANSWERS.write_text("".join(kept), encoding="utf-8")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
