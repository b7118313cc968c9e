"""The real clients of five SDKs, against a server on this machine: they accept the arguments.

An SDK writes the same values as the same bytes in each turn: the next request has each segment unchanged.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

import lore
from helpers.sdk_fakes import ANSWERS, MODELS, STEPS, TOOLS
from lore.model.lenient import camel
from lore.model.turn import Memo
from lore.prompt.dialects import DIALECTS
from lore.sdk.objects import plain


def camels(value):
    """Return a value whose names are spelled as Gemini's API does."""
    if isinstance(value, list):
        return [camels(inner) for inner in value]
    return {camel(key): camels(inner) for key, inner in value.items()} if isinstance(value, dict) else value


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        server = self.server
        server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        step = STEPS[min(len(server.bodies), len(STEPS)) - 1]
        answer = plain(ANSWERS[server.dialect](len(server.bodies), *step, 1000, 900))
        body = json.dumps(camels(answer) if server.dialect == "gemini" else answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *arguments):
        pass


@pytest.fixture
def server():
    made = HTTPServer(("127.0.0.1", 0), Handler)
    made.bodies, made.url = [], f"http://127.0.0.1:{made.server_port}"
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def _anthropic(url):
    client = pytest.importorskip("anthropic").Anthropic(api_key="k", base_url=url, max_retries=0)
    return client.messages.create, client.close


def _chat(url):
    client = pytest.importorskip("openai").OpenAI(api_key="k", base_url=url, max_retries=0)
    return client.chat.completions.create, client.close


def _responses(url):
    client = pytest.importorskip("openai").OpenAI(api_key="k", base_url=url, max_retries=0)
    return client.responses.create, client.close


def _gemini(url):
    client = pytest.importorskip("google.genai").Client(api_key="k", http_options={"base_url": url})
    return client.models.generate_content, client.close


def _bedrock(url):
    boto3 = pytest.importorskip("boto3")
    keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s", "region_name": "us-east-1"}
    client = boto3.client("bedrock-runtime", endpoint_url=url, **keys)
    return client.converse, client.close


CLIENTS = {
    "anthropic": _anthropic, "openai-chat": _chat, "openai-responses": _responses, "gemini": _gemini,
    "bedrock": _bedrock,
}  # fmt: skip


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("dialect", list(CLIENTS))
def test_real_client_sends_a_stable_prefix(dialect, server, tmp_path, monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server.dialect = dialect
    call, close = CLIENTS[dialect](server.url)
    session = lore.Session(MODELS[dialect], system="Be brief. é", tools=TOOLS, dialect=dialect)
    for text in ("Any news? ü 1.0", "And now?"):
        session.user(text)
        calls = ("begin",)
        while calls:
            reply = session.assistant(call(**session.request(current_time=f"10:0{len(server.bodies)}")))
            calls = reply.calls
            assert reply.usage.read_tokens == 900
            for use in calls:
                session.result(use.call_id, {"ran": use.name, "n": 1.5})
    close()
    assert len(server.bodies) == 3
    assert session.problems == []
    prompts = [DIALECTS[dialect].parse(body, "wire", Memo()) for body in server.bodies]
    said = [[segment.data for segment in prompt if b"[current-time]" not in segment.data] for prompt in prompts]
    assert len(said[0]) > 3
    for before, after in zip(said, said[1:], strict=False):
        kept = before[:-1] if before[-1].startswith(b'"role"') or b'"role":"system"' in before[-1] else before
        assert after[: len(kept)] == kept
    assert all(b"Let me look." in body for body in server.bodies[1:])
