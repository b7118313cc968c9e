"""`lore record`: how much later than its server's first byte a client's comes, the server, recorder and client apart.

The server sends the time in its first chunk; the clock is the machine's own, the same in every process. What the client
needs itself is measured without the recorder, and taken off.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import time
from pathlib import Path
from typing import Any

MEASURE = "first byte of a streamed answer through `lore record`, later than from its server itself"
BAR = "at most 5 ms"


def first_byte(folder: Path, times: int) -> tuple[str, str, str, bool]:
    """Return measure, bar, what was measured, and whether it was met."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    server = context.Process(target=_serve, args=(there,), daemon=True)
    server.start()
    upstream = here.recv()
    recorder = context.Process(target=_record, args=(there, upstream, str(folder / "record.jsonl")), daemon=True)
    recorder.start()
    address = here.recv() + "/anthropic"
    try:
        _delays(address, 5)  # connections and imports
        direct, through = _delays(upstream, times), _delays(address, times)
    finally:
        for process in (recorder, server):
            process.terminate()
            process.join()
    later = statistics.median(through) - statistics.median(direct)
    slow = sorted(through)[int(len(through) * 0.95)]
    said = (
        f"{later:.1f} ms (median of {times}; 95 of 100 within {slow:.1f} ms, {statistics.median(direct):.1f} without)"
    )
    return MEASURE, BAR, said, later <= 5


def _delays(address: str, times: int) -> list[float]:
    """Return for each request the milliseconds from when its server sent the first byte."""
    import httpx

    body = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": "x" * 100_000}]})
    found: list[float] = []
    with httpx.Client(trust_env=False, timeout=60) as client:
        for _ in range(times):
            with client.stream("POST", f"{address}/v1/messages", content=body) as answer:
                chunks = answer.iter_raw()
                sent = float(next(chunks))
                found.append((time.monotonic() - sent) * 1000)
                list(chunks)
    return found


async def _answer(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    await send({"type": "http.response.body", "body": repr(time.monotonic()).encode(), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _serve(ready: Any) -> None:
    import socket

    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ready.send(f"http://127.0.0.1:{listener.getsockname()[1]}")
    uvicorn.Server(uvicorn.Config(_answer, log_level="critical", lifespan="off")).run(sockets=[listener])


def _record(ready: Any, upstream: str, path: str) -> None:
    from lore.record.upstreams import routes_of
    from lore.run.live.record import CaptureProxy

    ready.send(CaptureProxy(routes_of({}, [upstream]), path, 0, print).address)
    while True:
        time.sleep(60)
