"""`recording` and `lore_recorder`: requests are recorded unchanged, and libraries are unwrapped."""

import gzip
import json
import sys

import httpx
import pytest
import requests
from requests.adapters import BaseAdapter

from lore.commands.main import main
from lore.pytest_plugin import assert_prefix_stable, recording
from lore.pytest_plugin.seams import SEAMS
from pytest_plugin.asking import body, sent

URL = "https://user:secret@api.example:8443/v1/messages?key=secret#part"
KEY = {"authorization": "Bearer secret", "x-api-key": "secret", "anthropic-beta": "context-1m"}
ANSWER = {"id": "msg_1", "usage": {"input_tokens": 1}}


def answering(_request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, json=ANSWER)


class Local(BaseAdapter):
    """Answers requests of a session in this process."""

    def send(self, request, **kwargs):
        response = requests.Response()
        response.status_code, response.url, response.request = 200, request.url, request
        response._content = json.dumps(ANSWER).encode()
        return response

    def close(self):
        pass


def client() -> httpx.Client:
    return httpx.Client(transport=httpx.MockTransport(answering))


def session() -> requests.Session:
    made = requests.Session()
    made.mount("https://", Local())
    made.trust_env = False
    return made


@pytest.mark.parametrize("make", [client, session])
@pytest.mark.parametrize("before", [True, False], ids=["made before", "made after"])
def test_any_client_is_recorded(make, before) -> None:
    early = make() if before else None
    with recording() as recorded:
        one = early or make()
        one.post(URL, content=sent(1), headers=KEY) if make is client else one.post(URL, data=sent(1), headers=KEY)
    (seen,) = recorded.requests
    assert (seen.method, seen.url, seen.status) == ("POST", "https://api.example:8443/v1/messages", 200)
    assert seen.body == sent(1)
    assert json.loads(seen.response) == ANSWER
    assert 0 < seen.at <= seen.answered
    assert "secret" not in repr(seen)
    assert seen.headers["anthropic-beta"] == "context-1m"


def test_nested_client_is_recorded() -> None:
    def nested(request: httpx.Request) -> httpx.Response:
        with session() as inner:
            inner.post("https://api.example/inner", data=sent(1))
        return httpx.Response(200)

    class Nesting(Local):
        def send(self, request, **kwargs):
            with session() as inner:
                inner.post("https://api.example/inner", data=sent(1))
            return super().send(request, **kwargs)

    with recording() as recorded:
        httpx.Client(transport=httpx.MockTransport(nested)).post("https://api.example/outer", content=b"{}")
        outer = session()
        outer.mount("https://", Nesting())
        outer.post("https://api.example/outer", data=b"{}")
    assert [one.url.rpartition("/")[2] for one in recorded] == ["outer", "inner"] * 2


def test_failed_request_is_recorded() -> None:
    def refuse(_):
        raise httpx.ConnectError("refused")

    with recording() as recorded, pytest.raises(httpx.ConnectError):
        httpx.Client(transport=httpx.MockTransport(refuse)).post(URL, content=sent(1))
    (seen,) = recorded.requests
    assert (seen.body, seen.status, seen.answered, seen.response) == (sent(1), None, None, None)


def test_subclass_is_recorded_once() -> None:
    class Own(httpx.Client):
        def send(self, request, **kwargs):
            return super().send(request, **kwargs)

    with recording() as recorded:
        Own(transport=httpx.MockTransport(answering)).post(URL, content=sent(1))
    assert len(recorded) == 1


def originals() -> list:
    return [
        vars(getattr(sys.modules[seam.module], seam.owner))[seam.method] for seam in SEAMS if seam.module in sys.modules
    ]


def test_failure_unwraps_libraries() -> None:
    before = originals()
    with pytest.raises(TypeError), recording():
        client().post(None)
    assert originals() == before


def test_recordings_may_be_nested() -> None:
    before = originals()
    with recording() as outer, recording() as inner, client() as one:
        one.post(URL, content=sent(1))
    assert len(outer) == len(inner) == 1
    assert originals() == before


def test_recorders_may_end_in_any_order() -> None:
    before = originals()
    first, second = recording(), recording()
    one, other = first.__enter__(), second.__enter__()
    first.__exit__(None, None, None)
    with client() as sending:
        sending.post(URL, content=sent(1))
    second.__exit__(None, None, None)
    assert (len(one), len(other)) == (0, 1)
    assert originals() == before


def test_wrapper_of_another_tool_stays(monkeypatch) -> None:
    calls = []
    monkeypatch.setattr(httpx.Client, "send", httpx.Client.send)  # undone when this test ends
    with recording() as recorded:
        below = httpx.Client.send

        def over(self, request, **more):
            calls.append(request)
            return below(self, request, **more)

        monkeypatch.setattr(httpx.Client, "send", over)
    with client() as sending:
        sending.post(URL, content=sent(1))
    assert (len(calls), len(recorded)) == (1, 0)
    with recording() as again, client() as sending:
        sending.post(URL, content=sent(1))
    assert (len(calls), len(again)) == (2, 1)


def test_packed_body_is_judged() -> None:
    with recording() as recorded, client() as sending:
        for one in (body(1), body(2, day=21)):
            packed = gzip.compress(json.dumps(one).encode())
            sending.post(URL, content=packed, headers={"content-encoding": "gzip"})
    with pytest.raises(AssertionError, match="LORE101"):
        assert_prefix_stable(recorded)
    assert gzip.decompress(recorded.requests[0].body) == json.dumps(body(1)).encode()


def test_damaged_packed_body_is_skipped() -> None:
    with recording() as recorded, client() as sending:
        sending.post(URL, content=gzip.compress(sent(1))[:60], headers={"content-encoding": "gzip"})
        sending.post(URL, content=b"words", headers={"content-encoding": "gzip"})
    with pytest.raises(AssertionError, match="none of 2 requests is a prompt"):
        assert_prefix_stable(recorded)


def test_streamed_bodies_are_named_as_reason() -> None:
    with recording() as recorded, client() as sending:
        for turns in (1, 2):
            sending.post(URL, content=iter([sent(turns)]))
    with pytest.raises(AssertionError, match="the body of 2 was a stream"):
        assert_prefix_stable(recorded)


def test_recording_can_be_saved_and_checked(tmp_path, capsys) -> None:
    with recording() as recorded, client() as one:
        one.get(URL)
        one.post(URL.replace("messages", "embeddings"), json={"model": "e", "input": "no prompt"})
        for number, day in ((1, 20), (2, 20), (3, 21)):
            one.post(URL, content=sent(number, day=day), headers=KEY)
    recorded.save(tmp_path / "run.jsonl")
    written = (tmp_path / "run.jsonl").read_text()
    assert "secret" not in written
    assert written.count("\n") == 3
    assert main(["check", str(tmp_path / "run.jsonl")]) == 1
    assert "LORE101" in capsys.readouterr().out
    recorded.clear()
    assert not len(recorded)
