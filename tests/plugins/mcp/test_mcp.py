"""The tools of `lore mcp`, asked by the client of the package `mcp` over standard input and output."""

import os
import re
import sys
import time
from datetime import UTC, datetime
from importlib.util import find_spec

import anyio
import pytest

from cli.running import process
from helpers.credentials import SAMPLES
from pictures.home import make

if find_spec("mcp") is None:
    pytest.skip("the package mcp is not installed", allow_module_level=True)

PROMPT = "Round invoices to cents"  # of a session of the project
KEY = SAMPLES["anthropic"]
CALLS = {
    "own cost": ("spend", {}),
    "sessions": ("sessions", {"limit": 3, "agent": "claude-code"}),
    "own verdicts": ("why", {}),
    "own turn": ("why", {"turn": 2}),
    "own findings": ("check", {}),
    "missing file": ("check", {"session": "nowhere.jsonl"}),
    "credential": ("check", {"session": f"{KEY.text}.jsonl"}),
    "option": ("check", {"session": "--report=html=written.html"}),
    "remote": ("check", {"session": "https://127.0.0.1:9/session.jsonl"}),
    "null character": ("check", {"session": "a\0b"}),
    "code": ("explain", {"code": "date-in-prefix"}),
}


class Asked:
    """The tools of a server, and its answers to `CALLS` by name."""

    def __init__(self, folder, home, *options, calls=CALLS):
        from mcp.client.stdio import StdioServerParameters  # half a second, in the worker that runs these tests

        self.folder, self.answers = folder, {}
        hidden = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        self._server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "lore", "mcp", *options],
            env={**environment, "HOME": str(home)},
            cwd=folder,
        )
        anyio.run(self._ask, calls)

    async def _ask(self, calls):
        from mcp import Client

        async with Client(self._server) as client:
            self.tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            for name, (tool, arguments) in calls.items():
                self.answers[name] = await client.call_tool(tool, arguments)

    def answer(self, name):
        assert not self.answers[name].is_error, self.answers[name]
        return self.answers[name].content[0].text

    def error(self, name):
        assert self.answers[name].is_error
        return self.answers[name].content[0].text


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A project's folder and a home folder with sessions of agents, some of them of this project."""
    folder, home = tmp_path_factory.mktemp("billing"), tmp_path_factory.mktemp("home")
    make(home, datetime.fromtimestamp(time.time(), UTC))
    logs = home / ".claude" / "projects"
    own = logs / re.sub(r"[^A-Za-z0-9]", "-", str(folder))
    (logs / "-home-dev-billing").rename(own)
    for log in own.rglob("*.jsonl"):
        log.write_text(log.read_text("utf-8").replace("/home/dev/billing", str(folder)), "utf-8")
    os.utime(own / "tax.jsonl", (0, 0))  # so that the newest session is the one with a cache break
    return folder, home


@pytest.fixture(scope="module")
def asked(place):
    return Asked(*place)


@pytest.fixture(scope="module")
def redacted(place):
    return Asked(*place, "--redact", calls={name: CALLS[name] for name in ("own cost", "own verdicts")})


def test_every_tool_is_read_only_and_documented(asked):
    assert sorted(asked.tools) == ["check", "explain", "sessions", "spend", "why"]
    for tool in asked.tools.values():
        assert tool.annotations.read_only_hint
        assert tool.description
        assert all("description" in field or "enum" in field for field in tool.input_schema["properties"].values())


def test_spend_answers_for_sessions_of_this_project(asked):
    assert re.search(r"\$\d+\.\d\d; \d sessions?, \d+ requests", asked.answer("own cost"))
    assert "codex" not in asked.answer("own cost").lower()


def test_sessions_are_limited_and_newest_first(asked):
    shown = asked.answer("sessions")
    assert shown.partition("\nmost re-billed")[0].count(".jsonl") == 3


def test_why_names_the_cause_in_own_session(asked):
    assert re.search(r"cause +LORE\d{3}", asked.answer("own verdicts"))
    assert "  turn 1 → turn 2" in asked.answer("own turn")


def test_check_takes_the_newest_session_of_project(asked):
    assert "1 cache break: " in asked.answer("own findings")
    assert "the newest session of this project is" in asked.answer("own findings")


def test_explain_answers_the_page_of_a_code(asked):
    assert asked.answer("code").startswith("# LORE101")


@pytest.mark.parametrize(("name", "message"), [
    ("missing file", "cannot read nowhere.jsonl: no such file or directory"),
    ("remote", "read recordings on this machine"),
    ("null character", "null character"),
])  # fmt: skip
def test_failed_call_is_a_tool_error(asked, name, message):
    assert message in asked.error(name)
    assert "Traceback" not in asked.error(name)


def test_credential_in_an_error_is_masked(asked):
    assert KEY.secret not in asked.error("credential")


def test_session_named_like_an_option_writes_nothing(asked):
    assert "cannot read --report" in asked.error("option")
    assert list(asked.folder.iterdir()) == []


def test_redacted_answers_hold_no_content(asked, redacted):
    plain = " ".join(asked.answer(name) for name in redacted.answers)
    hidden = " ".join(redacted.answer(name) for name in redacted.answers)
    assert PROMPT in plain
    assert PROMPT not in hidden


def test_mcp_without_its_package_names_the_extra(tmp_path):
    (tmp_path / "mcp.py").write_text("raise ModuleNotFoundError(name='mcp')")
    ran = process("mcp", env={"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])})
    assert (ran.code, ran.out) == (2, "")
    assert "pipx install --force '.[mcp]'" in ran.err
