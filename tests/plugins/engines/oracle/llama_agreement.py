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
from plugins.engines.oracle.llama_settings import (
    DELIMITER,
    SETTINGS,
    TOGETHER,
    ServerRequest,
    Setting,
    read,
    requests_of,
    setting_of,
)

ANSWERS = Path(__file__).parent / "answers" / "llama.jsonl"
RECORDED = 1  # sessions of each setting


def served(setting: Setting, *options: str) -> str:
    """Start a server with these options and return its URL."""
    return start(BUILT / f"{setting.file}.gguf", "-c", "8192", "-b", "512", "-ub", "512", *setting.server, *options)


def send_request(url: str, setting: Setting, request: ServerRequest) -> dict[str, Any]:
    """Send a request and return the server's response."""
    body: dict[str, object] = {
        "prompt": request.tokens, "n_predict": request.generated, "logit_bias": [[request.token, 1000]], "top_k": 1,
        "samplers": ["top_k"], "ignore_eos": True, "cache_prompt": True, "return_tokens": True,
    }  # fmt: skip
    if setting.users:
        body["message_delimiters"] = [{"role": "user", "delimiter": DELIMITER}]
    if request.slot is not None:
        body["id_slot"] = request.slot
    with closing(http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)) as connection:
        connection.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
    assert answer["tokens"] == [request.token] * request.generated, answer
    return answer


def cached(setting: Setting, session: int) -> list[int]:
    """Return the server's `cache_n` of each request of a session."""
    url = served(setting)
    reads = [send_request(url, setting, request)["timings"]["cache_n"] for request in requests_of(setting, session)]
    stop(url)
    return reads


def main() -> int:
    parser = argparse.ArgumentParser(description="compare lore's model of llama.cpp's server with the server")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--only", choices=SETTINGS)
    arguments = parser.parse_args()
    differing = 0
    lines: list[str] = []
    for kind in [arguments.only] if arguments.only else SETTINGS:
        differing += _compare_kind(kind, -(-arguments.count // TOGETHER), lines)
    if arguments.record:
        ANSWERS.write_text("".join(lines), encoding="utf-8")
    return int(differing > 0)


def _compare_kind(kind: str, sessions: int, lines: list[str]) -> int:
    """Send the sessions of a kind; return the number of differing requests, and add the first answers to `lines`."""
    requests = wrong = 0
    for session in range(sessions):
        setting = setting_of(kind, session)
        reads, predictions = cached(setting, session), read(setting, session)
        requests += len(reads)
        differing = [place for place, pair in enumerate(zip(reads, predictions, strict=True)) if pair[0] != pair[1]]
        wrong += len(differing)
        if differing:
            place = differing[0]
            print(f"{kind} {session} {setting.server} request {place}: llama.cpp {reads[place]}, "
                  f"lore {predictions[place]}, {len(differing)} of {len(reads)} differ", file=sys.stderr)  # fmt: skip
        if session < RECORDED * len(SETTINGS[kind]):
            lines.append(json.dumps([kind, session, *reads], separators=(",", ":")) + "\n")
    print(f"llama.cpp, {kind}: {sessions * TOGETHER:,} sequences, {requests:,} requests, {wrong:,} differ", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
