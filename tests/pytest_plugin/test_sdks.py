"""SDKs and HTTP libraries of today under the recorder: a moved prefix is caught through each.

Each catches a date, reordered tools or changed history. The SDKs are development dependencies: an installed one that
cannot be imported fails.
"""

import json
from functools import partial
from importlib.util import find_spec
from itertools import cycle

import pytest

from lore.commands.main import main
from lore.formats.captures.bodies import Bodies
from lore.pytest_plugin import assert_prefix_stable, recording
from pytest_plugin import agents
from pytest_plugin.agents import SECRET, Prompt
from pytest_plugin.standin import Standin

STABLE = [Prompt(1), Prompt(2), Prompt(3)]
MOVED = {
    "a date": ("LORE101", [Prompt(1), Prompt(2, day=21), Prompt(3, day=21)]),
    "reordered tools": ("LORE102", [Prompt(1), *(Prompt(turns, tools=("search", "read_file")) for turns in (2, 3))]),
    "changed history": ("LORE127", [Prompt(1), Prompt(2), Prompt(3, first="What is new in it since Monday?")]),
}
CALLED = {
    "anthropic": (agents.anthropic, agents.anthropic_async),
    "openai": (agents.openai, agents.openai_async),
    "openai responses": (partial(agents.openai, responses=True), partial(agents.openai_async, responses=True)),
    "google.genai": (agents.gemini, agents.gemini_async),
    "boto3": (agents.bedrock,),
    "httpx": (agents.httpx, agents.httpx_async),
    "httpx2": (partial(agents.httpx, library="httpx2"), partial(agents.httpx_async, library="httpx2")),
    "requests": (agents.requests,),
    "urllib3": (agents.urllib3,),
    "aiohttp": (agents.aiohttp_async,),
}


def is_installed(name: str) -> bool:
    package = name.partition(" ")[0]
    return all(find_spec(part) is not None for part in (package.partition(".")[0], package))


def agent_params():
    """Yield each way to call each SDK, with one of the changes in turn."""
    changes = cycle(MOVED)
    for name, ways in CALLED.items():
        absent = pytest.mark.skipif(not is_installed(name), reason=f"{name} is not installed: run `make test`")
        for way in ways:
            called = getattr(way, "func", way).__name__
            for stream in (False, True):
                mode = f"{'async' if called.endswith('_async') else 'sync'}{' streaming' if stream else ''}"
                yield pytest.param(partial(way, stream=stream), next(changes), id=f"{name}-{mode}", marks=absent)


def exchanges(recorded) -> list:
    """Return the exchanges that lore reads from a recording."""
    reader = Bodies()
    lines = b"".join(json.dumps(request.record()).encode() + b"\n" for request in recorded)
    return [read.value for read in reader.read([lines])]


@pytest.fixture(scope="module")
def server():
    with Standin() as standin:
        yield standin


@pytest.mark.filterwarnings("ignore")  # an SDK's own warnings are its makers' concern
@pytest.mark.parametrize(("agent", "change"), list(agent_params()))
def test_moved_prefix_is_caught_through_sdk(agent, change, server, tmp_path) -> None:
    server.received.clear()
    with recording() as stable:
        agent(server.url, STABLE)
    assert [request.body for request in stable] == server.received  # each once, its bytes on the wire
    assert_prefix_stable(stable)
    bills = [exchange.usage for exchange in exchanges(stable)]  # of the answers, whole or streamed
    assert [(bill.uncached_tokens, bill.output_tokens) for bill in bills] == [(10, 7)] * 3
    code, prompts = MOVED[change]
    with recording() as moved:
        agent(server.url, prompts)
    with pytest.raises(AssertionError, match=code):
        assert_prefix_stable(moved)
    stable.save(tmp_path / "run.jsonl")
    written = (tmp_path / "run.jsonl").read_text()
    assert SECRET not in written + repr(stable.requests)
    assert "AKIASECRET" not in written
    assert main(["check", str(tmp_path / "run.jsonl")]) == 0
