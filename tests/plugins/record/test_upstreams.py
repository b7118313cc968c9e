"""Servers of clients, and the variables that point clients to the recorder."""

import pytest

from helpers.each import each
from lore.errors import LoreError
from lore_plugins.record.upstreams import Route, make_routes

ALWAYS = {
    "ANTHROPIC_BASE_URL": "/anthropic",
    "OPENAI_BASE_URL": "/openai/v1",
    "OPENAI_API_BASE": "/openai/v1",
    "GOOGLE_GEMINI_BASE_URL": "/google",
    "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": "/bedrock",
}


def origins(routes):
    return {route.name: route.origin for route in routes.routes}


def test_clients_go_to_their_providers_by_default():
    routes = make_routes({})
    assert dict(routes.variables) == ALWAYS
    assert origins(routes) == {
        "anthropic": "https://api.anthropic.com",
        "openai": "https://api.openai.com",
        "google": "https://generativelanguage.googleapis.com",
        "bedrock": "https://bedrock-runtime.us-east-1.amazonaws.com",
    }


def test_variable_of_the_user_selects_the_server():
    environment = {
        "ANTHROPIC_BASE_URL": "https://Gateway.example:8443/team/anthropic/",
        "AWS_REGION": "eu-central-1",
        "OPENROUTER_API_BASE": "https://openrouter.ai/api/v1",
        "OPENAI_API_BASE": "http://localhost:11434/v1",
    }
    routes = make_routes(environment)
    assert dict(routes.variables) == {
        **ALWAYS, "ANTHROPIC_BASE_URL": "/anthropic/team/anthropic", "OPENROUTER_API_BASE": "/openrouter/api/v1",
        "OPENAI_API_BASE": "/openai-2/v1",
    }  # fmt: skip
    found = origins(routes)
    assert found["anthropic"] == "https://gateway.example:8443"
    assert found["bedrock"] == "https://bedrock-runtime.eu-central-1.amazonaws.com"
    assert (found["openai"], found["openai-2"]) == ("https://api.openai.com", "http://localhost:11434")


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080", "http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1"])
def test_one_upstream_serves_all_clients(url):
    routes = make_routes({"AZURE_OPENAI_ENDPOINT": "https://corp.azure.example"}, [url])
    assert dict(routes.variables) == {**ALWAYS, "AZURE_OPENAI_ENDPOINT": "/azure"}
    assert set(origins(routes).values()) == {"http://127.0.0.1:8080"}
    assert routes.find(b"/v1/messages") == (Route("any", "http://127.0.0.1:8080"), b"/v1/messages")


def test_named_upstream_serves_its_clients():
    routes = make_routes(
        {"OPENAI_BASE_URL": "https://ignored.example"},
        ["openai=https://openrouter.ai/api/v1", "anthropic=http://localhost:1", "chatgpt=https://chatgpt.com"],
    )
    assert dict(routes.variables)["OPENAI_BASE_URL"] == "/openai/api/v1"
    assert dict(routes.variables)["ANTHROPIC_BASE_URL"] == "/anthropic"
    assert origins(routes)["openai"] == "https://openrouter.ai"
    assert routes.find(b"/chatgpt/backend-api/codex") == (
        Route("chatgpt", "https://chatgpt.com"),
        b"/backend-api/codex",
    )


def test_only_redirects_named_clients():
    routes = make_routes({}, (), ["anthropic"])
    assert dict(routes.variables) == {"ANTHROPIC_BASE_URL": "/anthropic"}


@each([b"/", b"", b"//evil.example/", b"/anthropicx/v1", b"/v1/messages", b"http://evil.example/", b"/%61nthropic/"])
def test_path_without_a_route_has_no_server(path):
    assert make_routes({}).find(path) is None


def test_path_after_the_route_is_unchanged():
    routes = make_routes({})
    assert routes.find(b"/bedrock/model/a%3Ab/../c//d")[1] == b"/model/a%3Ab/../c//d"
    assert routes.find(b"/google")[1] == b"/"


@each([
    "ftp://host", "api.example.com", "https://", "https://host?x=SECRET", "https://host#SECRET", "https://host:99999",
    "https://user:SECRET@host", "https://ho st", "https://host\n.example", "https://[::1", "http://host:0",
])  # fmt: skip
def test_invalid_server_is_refused_without_quoting_it(url):
    for arguments in (({}, [url]), ({}, [f"openai={url}"]), ({"OPENAI_BASE_URL": url}, ())):
        with pytest.raises(LoreError) as error:
            make_routes(*arguments)
        assert "SECRET" not in error.value.message + error.value.hint


@pytest.mark.parametrize(("arguments", "words"), [
    (({}, (), ["antropic"]), "anthropic"),
    (({}, ["http://a", "http://b"]), "NAME=URL"),
    (({}, ["Bad Name=http://a"]), "NAME=URL"),
    (({"AWS_REGION": "x.evil.example/"},), "us-east-1"),
])  # fmt: skip
def test_misspelled_name_is_corrected(arguments, words):
    with pytest.raises(LoreError) as error:
        make_routes(*arguments)
    assert words in error.value.message + error.value.hint
