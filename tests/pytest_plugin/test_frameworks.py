"""The guide's page on frameworks: each agent on it is recorded, keeps its prefix, and writes spans that lore reads."""

import re
import textwrap
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import pytest

from lore.commands.main import main
from pytest_plugin.standin import Standin

pytestmark = [pytest.mark.soak, pytest.mark.filterwarnings("ignore")]  # these packages are large, and warn
PAGE = resources.files("lore").joinpath("guide", "frameworks.md").read_text("utf-8")
BLOCKS = [textwrap.dedent(block) for block in re.findall(r"(?:^    [^\n]*\n|^\n(?=    ))+", PAGE, re.MULTILINE)]
AGENTS = {
    "pydantic_ai": "import Agent\nfrom pydantic_ai.models",
    "langchain_anthropic": "ChatAnthropic",
    "agents": "Runner",
    "litellm": "litellm.completion",
}


def block(words: str) -> str:
    """Return the code of the page with these words."""
    (found,) = (block for block in BLOCKS if words in block)
    return found


def need(*packages: str) -> None:
    """Skip the test without these packages, which are imported by other processes only."""
    for package in packages:
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed: run `make soak`")


@pytest.fixture
def server(monkeypatch):
    with Standin() as standin:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", standin.url)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{standin.url}/v1")
        for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
            monkeypatch.setenv(name, "not-a-key")
        monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
        yield standin


@pytest.mark.parametrize("package", AGENTS)
def test_agent_of_framework_keeps_its_prefix(package, pytester, server, monkeypatch):
    need(package)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makepyfile(test_agent=f"{block(AGENTS[package])}\n{block('assert_prefix_stable')}")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)
    assert len(server.received) == 2
    asked = b"cache_control" in server.received[-1]
    assert asked is (package != "agents")


def test_spans_of_pydantic_ai_are_a_recording(pytester, server, capsys):
    need("pydantic_ai", "opentelemetry")
    code = f"{block('TracerProvider')}\n{block(AGENTS['pydantic_ai'])}\nask('And now?', ask('What is new?'))\n"
    assert pytester.runpython(pytester.makepyfile(agent=code)).ret == 0
    assert len(server.received) == 2
    assert main(["check", str(Path(pytester.path, "spans.json"))]) == 0
    assert "2 turns" in capsys.readouterr().out
