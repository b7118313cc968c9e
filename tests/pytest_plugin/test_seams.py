"""Each seam: streams are kept as their client reads them, once, unchanged; nothing of lore's can break a client."""

import asyncio
import gc
import gzip
import json
import subprocess
import sys
import threading
import warnings
import weakref
from contextlib import contextmanager
from importlib.util import find_spec

import httpx
import pytest
import requests
import urllib3

from helpers.provider_answers import anthropic
from lore.pytest_plugin import LoreWarning, listening, recording
from lore.pytest_plugin.seams import SEAMS
from pytest_plugin.asking import body, sent
from pytest_plugin.standin import Standin

STREAM = json.dumps(body(1, stream=True)).encode()
EVENTS = anthropic(json.loads(STREAM), cached=None)


def needs(library):
    return pytest.mark.skipif(find_spec(library) is None, reason=f"{library} is not installed: run `make test`")


@pytest.fixture(scope="module")
def server():
    with Standin() as standin:
        yield standin


def session() -> requests.Session:
    made = requests.Session()
    made.trust_env = False
    return made


def of_requests(url):
    with session() as client:
        yield from client.post(url, data=STREAM, stream=True).iter_content(None)


def of_requests_raw(url):
    with session() as client:
        raw = client.post(url, data=STREAM, stream=True).raw
        while piece := raw.read(50):
            yield piece


def of_urllib3(url):
    with urllib3.PoolManager() as pool:
        yield from pool.request("POST", url, body=STREAM, preload_content=False).stream()


def of_urllib3_lines(url):
    with urllib3.PoolManager() as pool:
        yield from pool.urlopen("POST", url, body=STREAM, preload_content=False)


def of_httpx(url, library="httpx"):
    with __import__(library).Client() as client, client.stream("POST", url, content=STREAM) as answer:
        yield from answer.iter_bytes()


def of_httpx2(url):
    yield from of_httpx(url, "httpx2")


STREAMS = [of_requests, of_requests_raw, of_urllib3, of_urllib3_lines, of_httpx]
STREAMS.append(pytest.param(of_httpx2, marks=needs("httpx2")))


@pytest.mark.parametrize("stream", STREAMS)
def test_stream_is_kept_as_far_as_read(stream, server) -> None:
    server.received.clear()
    with recording() as recorded:
        whole = b"".join(stream(f"{server.url}/v1/messages"))
        pieces = stream(f"{server.url}/v1/messages")
        first = next(pieces)
        pieces.close()  # the client stops early
    assert whole == b"".join(EVENTS)
    assert [request.body for request in recorded] == server.received == [STREAM] * 2
    kept = [request.response for request in recorded]
    assert kept[0] == whole
    assert kept[1].startswith(first)
    assert len(kept[1]) < len(whole)


@needs("aiohttp")
@pytest.mark.parametrize("way", ["iter_any", "readline", "iter_chunks", "read"])
def test_aiohttp_stream_is_kept(way, server) -> None:
    import aiohttp

    async def ask():
        url = f"{server.url}/v1/messages"
        async with aiohttp.ClientSession() as client, client.post(url, data=STREAM) as answer:
            assert isinstance(answer.content, aiohttp.StreamReader)
            if way == "read":
                return await answer.read()
            if way == "readline":
                return b"".join([line async for line in answer.content])
            return b"".join([
                piece[0] if way == "iter_chunks" else piece async for piece in getattr(answer.content, way)()
            ])  # fmt: skip

    with recording() as recorded:
        assert asyncio.run(ask()) == b"".join(EVENTS)
    (seen,) = recorded.requests
    assert (seen.body, seen.status, seen.response) == (STREAM, 200, b"".join(EVENTS))


@needs("aiohttp")
def test_aiohttp_redirect_is_recorded_once(server) -> None:
    import aiohttp

    async def ask():
        headers = {"Anthropic-Beta": "context-1m", "Authorization": "Bearer secret"}
        client = aiohttp.ClientSession(server.url, headers=headers)
        async with client, client.post("/moved?key=secret", json=body(1)) as answer:
            return await answer.json()

    with recording() as recorded:
        assert asyncio.run(ask())["id"] == "msg_1"
    (seen,) = recorded.requests
    assert (seen.method, seen.url) == ("POST", f"{server.url}/moved")
    assert json.loads(seen.body) == body(1)
    assert seen.headers["anthropic-beta"] == "context-1m"
    assert "secret" not in repr(seen)


@contextmanager
def streaming(pieces, **headers):
    """Open a stream of a client whose transport answers with these pieces."""
    transport = httpx.MockTransport(lambda _: httpx.Response(200, headers=headers, content=iter(pieces)))
    with httpx.Client(transport=transport) as client, client.stream("POST", "https://a/v1", content=STREAM) as answer:
        yield answer


def test_broken_stream_is_kept() -> None:
    def broken():
        yield EVENTS[0]
        raise httpx.ReadError("gone")

    with recording() as recorded, streaming(broken()) as answer, pytest.raises(httpx.ReadError):
        answer.read()
    assert recorded.requests[0].response == EVENTS[0]


def test_packed_stream_is_unpacked() -> None:
    packed = [gzip.compress(b"".join(EVENTS))]
    with recording() as recorded, streaming(packed, **{"content-encoding": "gzip"}) as answer:
        answer.read()
    assert recorded.requests[0].response == b"".join(EVENTS)


def test_cut_packed_stream_is_partly_unpacked() -> None:
    packed = gzip.compress(b"".join(EVENTS), compresslevel=0)
    with recording() as recorded, streaming([packed[:200], b"x"], **{"content-encoding": "gzip"}) as answer:
        next(answer.iter_raw())
    assert b"".join(EVENTS).startswith(recorded.requests[0].response)
    assert recorded.requests[0].response.startswith(b"event: message_start")


@needs("brotli")
def test_decompression_bomb_stays_packed() -> None:
    import brotli

    packed = brotli.compress(b"x" * 32_000_000, quality=1)
    with recording() as recorded, streaming([packed], **{"content-encoding": "br"}) as answer:
        list(answer.iter_raw())
    assert recorded.requests[0].response == packed


def test_streamed_body_is_read_below(server) -> None:
    class Over(httpx.BaseTransport):
        def handle_request(self, request):
            with session() as client:
                return httpx.Response(200, content=client.post(str(request.url), data=request.read()).content)

    with recording() as recorded, httpx.Client(transport=Over()) as client:
        client.post(f"{server.url}/v1/messages", content=iter([sent(1)]))
    (seen,) = recorded.requests
    assert seen.body == sent(1)


def test_dropped_stream_is_freed(server) -> None:
    gc.disable()
    try:
        with recording(), session() as client:
            answer = client.post(f"{server.url}/v1/messages", data=STREAM, stream=True)
            raw = weakref.ref(answer.raw)
            del answer
            assert raw() is None
    finally:
        gc.enable()


LATER = """
import sys
import threading
from lore.pytest_plugin import recording
{before}
with recording() as recorded:
    assert "{module}" not in sys.modules, "recording imports it"
    import {library}
    wrapped = {owner}.{method}
    assert hasattr(wrapped, "__lore__")
assert not hasattr({owner}.{method}, "__lore__")
assert not any("lore" in type(finder).__module__ for finder in sys.meta_path)
"""


@pytest.mark.parametrize("library", ["httpx", "httpx2", "requests", "aiohttp", "botocore", "urllib3"])
def test_later_import_is_recorded(library) -> None:
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed: run `make test`")
    seam = next(seam for seam in SEAMS if seam.library == library)
    code = LATER.format(
        before="", module=seam.module, library=seam.module, owner=f"{seam.module}.{seam.owner}", method=seam.method
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_own_error_is_a_warning(server, monkeypatch) -> None:
    def fails(*_):
        raise RuntimeError("Bearer secret")

    monkeypatch.setattr(listening, "mask", fails)

    def ask():
        with recording() as recorded, httpx.Client() as client:
            assert client.post(f"{server.url}/v1/messages", content=sent(1)).json()["id"] == "msg_1"
            assert not len(recorded)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ask()
    (warning,) = [one for one in caught if one.category is LoreWarning]
    assert "RuntimeError at httpx's Client.send" in str(warning.message)
    assert "secret" not in str(warning.message)
    with pytest.raises(LoreWarning):  # where warnings are errors, the one who recorded gets it, and not the client
        ask()


def test_key_in_url_is_masked(server) -> None:
    key = "sk-ant-api03-" + "a1B2" * 10
    with recording() as recorded, session() as client:
        client.post(f"{server.url}/{key}/v1/messages?key={key}#{key}", data=sent(1))
    assert key not in repr(recorded.requests[0]) + json.dumps(recorded.requests[0].record())


def test_other_responses_are_not_kept(server) -> None:
    with recording() as recorded, session() as client:
        answer = client.get(server.url, stream=True)
        kind = type(answer.raw)
        answer.close()
        uploaded = client.post(server.url, data=b"words", stream=True)
        uploaded.close()
    assert kind is type(uploaded.raw) is urllib3.HTTPResponse
    assert [request.may_be_prompt for request in recorded] == [False, False]


def test_abandoned_coroutine_does_not_disturb_requests(server) -> None:
    async def never(_):
        await asyncio.sleep(60)

    async def ask():
        async with httpx.AsyncClient(transport=httpx.MockTransport(never)) as slow, httpx.AsyncClient() as client:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(slow.post(server.url, content=sent(1)), 0.01)
            await client.post(f"{server.url}/v1/messages", content=sent(1))

    with recording() as recorded:
        asyncio.run(ask())
    assert [request.status for request in recorded] == [None, 200]


def test_threaded_recordings_are_unwrapped(server) -> None:
    before = [vars(sys.modules[seam.module].__dict__[seam.owner])[seam.method] for seam in loaded_seams()]
    faults = []

    def record():
        try:
            for _ in range(20):
                with recording() as recorded, session() as client:
                    client.post(f"{server.url}/v1/messages", data=sent(1))
                assert sent(1) in [request.body for request in recorded]
        except Exception as error:  # noqa: BLE001 - a thread has no caller
            faults.append(error)

    threads = [threading.Thread(target=record) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert [vars(sys.modules[seam.module].__dict__[seam.owner])[seam.method] for seam in loaded_seams()] == before
    assert not any(type(finder).__module__.startswith("lore") for finder in sys.meta_path)


def loaded_seams():
    return [seam for seam in SEAMS if seam.module in sys.modules]
