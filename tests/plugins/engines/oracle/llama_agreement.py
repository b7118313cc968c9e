"""Compare lore's model of llama.cpp's server with the server: `make oracle-llama`.

It prints the number of requests of each kind of setting (`SETTINGS`), the number for which the server's `cache_n`
differs from lore's prediction, and the first difference of each session; the exit code is 1 if there is one. `--record`
writes the first answers to `answers/`, which `make test` compares without a server.
"""

import argparse
import http.client
import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from plugins.engines.oracle.llama_server import BUILT, start, stop
from plugins.engines.oracle.llama_settings import DELIMITER, SETTINGS, TOGETHER, Asked, Setting, asked, read, setting_of

ANSWERS = Path(__file__).parent / "answers" / "llama.jsonl"
RECORDED = 1  # sessions of each setting


def served(setting: Setting, *options: str) -> str:
    """Start a server with these options and return its URL."""
    return start(BUILT / f"{setting.file}.gguf", "-c", "8192", "-b", "512", "-ub", "512", *setting.server, *options)


def answered(url: str, setting: Setting, each: Asked) -> dict[str, Any]:
    """Send a request and return the server's response."""
    body: dict[str, object] = {
        "prompt": each.tokens, "n_predict": each.generated, "logit_bias": [[each.token, 1000]], "top_k": 1,
        "samplers": ["top_k"], "ignore_eos": True, "cache_prompt": True, "return_tokens": True,
    }  # fmt: skip
    if setting.users:
        body["message_delimiters"] = [{"role": "user", "delimiter": DELIMITER}]
    if each.slot is not None:
        body["id_slot"] = each.slot
    with closing(http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)) as connection:
        connection.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
    assert answer["tokens"] == [each.token] * each.generated, answer
    return answer


def cached(setting: Setting, session: int) -> list[int]:
    """Return the server's `cache_n` of each request of a session."""
    url = served(setting)
    found = [answered(url, setting, each)["timings"]["cache_n"] for each in asked(setting, session)]
    stop(url)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="compare lore's model of llama.cpp's server with the server")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--only", choices=SETTINGS)
    given = parser.parse_args()
    differing = 0
    kept: list[str] = []
    for kind in [given.only] if given.only else SETTINGS:
        differing += _compared(kind, -(-given.count // TOGETHER), kept)
    if given.record:
        ANSWERS.write_text("".join(kept), encoding="utf-8")
    return int(differing > 0)


def _compared(kind: str, sessions: int, kept: list[str]) -> int:
    """Send the sessions of a kind; return the number of differing requests, and add the first answers to `kept`."""
    requests = wrong = 0
    for session in range(sessions):
        setting = setting_of(kind, session)
        answer, found = cached(setting, session), read(setting, session)
        requests += len(answer)
        differing = [place for place, pair in enumerate(zip(answer, found, strict=True)) if pair[0] != pair[1]]
        wrong += len(differing)
        if differing:
            place = differing[0]
            print(f"{kind} {session} {setting.server} request {place}: llama.cpp {answer[place]}, lore {found[place]}, "
                  f"{len(differing)} of {len(answer)} differ", file=sys.stderr)  # fmt: skip
        if session < RECORDED * len(SETTINGS[kind]):
            kept.append(json.dumps([kind, session, *answer], separators=(",", ":")) + "\n")
    print(f"llama.cpp, {kind}: {sessions * TOGETHER:,} sequences, {requests:,} requests, {wrong:,} differ", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
