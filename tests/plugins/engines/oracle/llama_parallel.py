"""Compare lore's model of llama.cpp's slots with the server for concurrent requests: `make oracle-llama`.

Overlapping requests of a sequence are sent at once. It prints the number of requests for which the server's `cache_n`
differs from lore's prediction; the exit code is 1 if there is one. The order in which the server takes requests depends
on the machine; it is read from the server's log, with line numbers as times, and given to the model, so the comparison
does not depend on it. `--record` writes the first answers to `answers/`.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from lore.cache.base import Piece
from plugins.engines.loaded import make
from plugins.engines.oracle.llama_agreement import send_request, served
from plugins.engines.oracle.llama_server import stop
from plugins.engines.oracle.llama_settings import PARALLEL, TOGETHER, ServerRequest, Setting, requests_of, same_in

ANSWERS = Path(__file__).parent / "answers" / "llama-parallel.jsonl"
_TASK = re.compile(r"slot +\w+: id +(\d+) \| task (\d+) \| (.*)")
_PROCESSED = re.compile(r"prompt eval time = +([\d.]+) ms / +(\d+) tokens")
_RELEASED = re.compile(r"stop processing: n_tokens = (\d+)")


class ServedRequest(NamedTuple):
    """A request as the server took it: its number, the log lines of its begin and end, its `cache_n`."""

    number: int
    at: int
    ended: int
    cached: int


class _Task(NamedTuple):
    """A task in the log; `at` and `ended` are line numbers, `milliseconds` is the time of its prompt."""

    slot: int
    at: int
    ended: int = 0
    processed: int = 0
    final_tokens: int = 0
    milliseconds: float = 0.0


def send_session(setting: Setting, session: int) -> list[ServedRequest]:
    """Send the requests of a session, overlapping ones at once; return them in the server's order."""
    groups = list(_groups(setting, session))
    requests = [request for group in groups for request in group]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(16) as pool:
        log = Path(folder, "log")
        url = served(setting, "--log-file", str(log))
        answers: list[dict[str, Any]] = []
        for group in groups:
            answers += pool.map(partial(send_request, url, setting), group)
        while log.read_text(encoding="utf-8").count("stop processing") < len(requests):
            time.sleep(0.02)  # it is written a little later
        stop(url)
        tasks = _tasks(log.read_text(encoding="utf-8"))
    served_requests: list[ServedRequest] = []
    for number, (request, answer) in enumerate(zip(requests, answers, strict=True)):
        task = _task_of(request, answer, tasks)
        tasks.remove(task)
        served_requests.append(ServedRequest(number, task.at, task.ended, answer["timings"]["cache_n"]))
    return sorted(served_requests, key=lambda request: request.at)


def _groups(setting: Setting, session: int) -> Iterator[list[ServerRequest]]:
    """Yield groups of overlapping requests, which name no slot: the server would overwrite one that is computing."""
    group: list[ServerRequest] = []
    for request in requests_of(setting, session):
        if group and (request.sequence != group[0].sequence or request.at >= max(other.ended for other in group)):
            yield _alone(group)
            group = []
        group.append(request)
    yield _alone(group)


def _alone(group: list[ServerRequest]) -> list[ServerRequest]:
    if len(group) == 1:
        return group
    return [request._replace(slot=None, request=replace(request.request, slot=None)) for request in group]


def _tasks(log: str) -> list[_Task]:
    tasks: dict[str, _Task] = {}
    for number, line in enumerate(log.splitlines()):
        match = _TASK.search(line)
        if match is None:
            continue
        slot, task, text = match.groups()
        if text.startswith("processing task"):
            tasks[task] = _Task(int(slot), number)
        elif (timed := _PROCESSED.match(text)) is not None:
            tasks[task] = tasks[task]._replace(milliseconds=float(timed[1]), processed=int(timed[2]))
        elif (ended := _RELEASED.match(text)) is not None:
            tasks[task] = tasks[task]._replace(ended=number, final_tokens=int(ended[1]))
    return list(tasks.values())


def _task_of(request: ServerRequest, answer: dict[str, Any], tasks: Sequence[_Task]) -> _Task:
    """Return the task of a request: of those with its slot and sizes, the one with the nearest time."""
    timings = answer["timings"]
    expected = (answer["id_slot"], timings["prompt_n"], len(request.tokens) + request.generated - 1)
    matching = [task for task in tasks if (task.slot, task.processed, task.final_tokens) == expected]
    return min(matching, key=lambda task: abs(task.milliseconds - timings["prompt_ms"]))


def read(setting: Setting, session: int, order: Sequence[ServedRequest]) -> list[int | None]:
    """Return lore's prediction for each request, in the order in which the server took them."""
    model = make("llama.cpp", lambda rule, name, at: None, setting.model)
    requests = [entry for group in _groups(setting, session) for entry in group]
    before, predictions = dict[str, Sequence[Piece]](), list[int | None]()
    for entry in order:
        request = requests[entry.number].request
        same = same_in(request.pieces, before.get(request.chain, ()))
        before[request.chain] = request.pieces
        predictions.append(
            model.predict(replace(request, same=same, at=float(entry.at), ended=float(entry.ended))).read
        )
    return predictions


def main() -> int:
    parser = argparse.ArgumentParser(description="compare lore's model of llama.cpp with requests at the same time")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    requests = together = wrong = 0
    lines: list[str] = []
    sessions = -(-arguments.count // TOGETHER)
    for session in range(sessions):
        setting = PARALLEL[session % len(PARALLEL)]
        order = send_session(setting, session)
        predictions = read(setting, session, order)
        differing = [(entry, lore) for entry, lore in zip(order, predictions, strict=True) if entry.cached != lore]
        requests, wrong = requests + len(order), wrong + len(differing)
        together += sum(
            entry.at < max((other.ended for other in order[:at]), default=0) for at, entry in enumerate(order)
        )
        if differing:
            print(f"session {session} {setting.server}: {differing[0]}, {len(differing)} differ", file=sys.stderr)
        if session < len(PARALLEL):
            lines.append(json.dumps([session, *order], separators=(",", ":")) + "\n")
    print(f"llama.cpp, parallel: {sessions * TOGETHER:,} sequences, {requests:,} requests, "
          f"{together:,} while others ran, {wrong:,} differ")  # fmt: skip
    if arguments.record:
        ANSWERS.write_text("".join(lines), encoding="utf-8")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
