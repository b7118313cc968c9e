"""LiteLLM's payloads and completion files: the body that is read, usage, ignored calls."""

from __future__ import annotations

import json

import pytest

from formats.captures import codes, exchanges, fixture
from lore.formats.captures.litellm import LiteLLM
from lore.model.codes import Problem
from lore.model.events import Usage
from lore.testing import ReaderContract, everything
from model.making import body, dumps

LINES, LIST = fixture("litellm/stable.jsonl"), fixture("litellm/breaks.json")
ONE = fixture("completions/stable/claude-sonnet-4-6-a.json")
MESSAGES = [{"role": "user", "content": "hi"}]


class TestContract(ReaderContract):
    """The suite that every reader passes."""

    reader = LiteLLM
    samples = (LINES, LIST, ONE)


def payload(**more):
    own = {"call_type": "acompletion", "startTime": 1.5e9, "model": "m", "model_parameters": {}, "messages": MESSAGES}
    return dumps({**own, **more})


def only(**more):
    found = exchanges(LiteLLM, payload(**more))
    assert len(found) == 1
    return found[0]


def test_failed_payload_quotes_its_error():
    error = {"error_code": "404", "error_message": "model m does not exist"}
    (found,) = (
        one.value for one in everything(LiteLLM(), payload(status="failure", error_information=error))
        if isinstance(one.value, Problem)
    )  # fmt: skip
    assert found.message == "the API refused a request (HTTP 404): model m does not exist"


def test_proxy_request_is_preferred_to_messages():
    found = exchanges(LiteLLM, LINES)
    assert {one.fidelity for one in found} == {"parsed"}
    assert json.loads(found[0].body)["model"] == "sonnet"


def test_provider_body_as_text_is_wire():
    text = json.dumps(body("x"), indent=1)
    found = only(raw_request_body=text, proxy_server_request={"body": body("y")})
    assert (found.body, found.fidelity) == (text.encode(), "wire")


def test_proxy_body_is_never_wire():
    assert only(proxy_server_request={"body": json.dumps(body("y"))}).fidelity == "parsed"


def test_usage_is_split_wherever_it_is():
    usage = {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 60}}
    wanted = Usage(uncached_tokens=40, read_tokens=60, output_tokens=5)
    assert only(response={"usage": usage}).usage == wanted
    assert only(metadata={"usage_object": usage}).usage == wanted
    assert only(**usage).usage == wanted


def test_endpoint_has_no_scheme_and_query():
    assert only(api_base="https://api.anthropic.com/v1/messages?k=1").call.endpoint == "api.anthropic.com/v1/messages"


def test_api_key_in_parameters_is_dropped():
    assert b"sk-1" not in only(model_parameters={"api_key": "sk-1", "max_tokens": 9}).body


def test_hidden_messages_are_a_problem():
    assert codes(LiteLLM, payload(messages="redacted-by-litellm")) == ["LORE228"]


def test_calls_without_messages_are_ignored():
    assert exchanges(LiteLLM, payload(call_type="aembedding", messages="text")) == []
    assert codes(LiteLLM, payload(call_type="aembedding", messages="text")) == []


def test_wrong_types_raise_nothing():
    for wrong in (None, 5, "x", [], {}, [[]], [5]):
        for key in ("messages", "model_parameters", "proxy_server_request", "response", "metadata", "startTime",
                    "model", "raw_request_body", "prompt_tokens", "api_base", "call_type"):  # fmt: skip
            exchanges(LiteLLM, payload(**{key: wrong}))


REFUSED = {"status": "failure", "error_information": {"error_code": "429"}}


@pytest.mark.parametrize(("more", "status"), [({}, None), ({"status": "failure"}, None), (REFUSED, 429)])
def test_refused_call_has_its_status(more, status):
    given = {"call_type": "completion", "startTime": 1, "model_parameters": {}, "messages": [{"role": "user"}]}
    assert exchanges(LiteLLM, dumps({**given, **more}))[0].call.status == status
