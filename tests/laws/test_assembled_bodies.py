"""Assembled bodies are not to blame: `lore check` finds no waste in them, lint no error of breakpoints.

All bodies of a session are one recording of plain requests. The replaced tail and the compaction have to be found in
their bytes. Changes that the session itself asked for remain findings. Lint may report sizes, texts in the system
prompt and risks: generated sessions are short and hold any text.
"""

import json
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.running import lore
from conftest import ROOT
from helpers.matrix import crossed
from helpers.strategies import bodies, places_for_breakpoints, with_breakpoints
from helpers.strategies.sessions import Agent, scripts
from lore.commands.assemble import open_session, whole_line
from lore.judge.requests.lint import Linter
from lore.model.codes import CODES
from lore.model.jsonslice import raw_members
from lore.model.turn import Memo, Turn
from lore.prompt.base import POLICIES, Rules
from lore.prompt.dialects import DIALECTS, dialect_of
from lore.recording.corpus import Name
from lore.recording.opening import Options
from lore.run.checking.check import check
from lore.run.rules import PACKAGED

SESSIONS = sorted((ROOT / "fixtures" / "sessions").glob("*.jsonl"))
# The user of this session added a tool: the log records it, in bodies it is waste.
ASKED_FOR = {"changed_session": {"LORE103"}}
# Parts of these sessions are too short to be cached; a model of breakpoints has none in other dialects' bodies.
SHORT, UNMARKED = {"LORE306"}, {"LORE114"}


def written(path, dialect, tail):
    """Return the bodies of a session as they would be sent, one a line."""
    session = open_session(Name(str(path)), Options(dialect=dialect, rules=Rules(tail=tail)), subagents=True)
    lines = (whole_line(turn, session) for turn in session.turns())
    return b"".join(raw_members(line)["body"] + b"\n" for line in lines)


def judged(log, dialect, tail, folder):
    """Return the result of `lore check` on the bodies of a session."""
    recording = folder / "bodies.jsonl"
    recording.write_bytes(written(log, dialect, tail))
    return check([str(recording)]).result


@crossed("path, dialect, tail", [(path.stem, path) for path in SESSIONS], DIALECTS, POLICIES)
def test_assembled_bodies_draw_no_waste(path, dialect, tail, tmp_path):
    stem, log = path
    result = judged(log, dialect, tail, tmp_path)
    assert result.summary.turns == result.summary.pairs + result.summary.chains
    assert not result.problems
    wasteful_codes = {finding.code for finding in result.findings if finding.kind == "waste"}
    assert wasteful_codes == ASKED_FOR.get(stem, set()), [finding.message for finding in result.findings]
    assert {finding.code for finding in result.findings if finding.kind == "unattributable"} <= (
        SHORT if dialect in ("anthropic", "bedrock") else SHORT | UNMARKED
    )
    assert result.summary.unattributable == 0


def test_tail_after_first_message_is_noted(tmp_path):
    result = judged(ROOT / "fixtures" / "sessions" / "plain.jsonl", "anthropic", "user", tmp_path)
    assert [finding.turn for finding in result.findings if finding.code == "LORE156"] == list(
        range(2, result.summary.turns + 1)
    )
    assert result.summary.breaks == 0


@pytest.mark.parametrize("tail", POLICIES)
def test_assembled_bodies_pass_check_command(tail, desk):
    log = str(ROOT / "fixtures" / "sessions" / "tool_loop.jsonl")
    lines = lore("assemble", log, "--all", "--full", "--tail", tail).lines
    (desk / "bodies.jsonl").write_text("".join(json.dumps(line["body"]) + "\n" for line in lines))
    result = lore("check", "bodies.jsonl", "--json")
    assert (result.code, result.json["summary"]["waste"]) == (0, 0)


MODELS = {"anthropic": "claude-opus-5", "bedrock": "anthropic.claude-opus-5-v1:0", "openai-chat": "gpt-5.6",
          "openai-responses": "gpt-5.6", "gemini": "gemini-2.5-pro"}  # fmt: skip
TTLS = [("1h", "1h"), ("1h", "5m"), ("5m", "5m")]
# Findings about sizes and texts, not about the assembler.
OF_CONTENT = {"LORE114", "LORE151", "LORE153", "LORE182", "LORE306"}


@cache
def linter():
    return Linter(PACKAGED.rules)


@pytest.mark.parametrize("dialect", MODELS)
@given(script=scripts(max_size=8), ttls=st.sampled_from(TTLS))
def test_assembled_bodies_pass_lint(dialect, script, ttls):
    rules = Rules(head_ttl=ttls[0], ttl=ttls[1])
    for played in Agent(dialect, rules, model=MODELS[dialect]).play(script).turns:
        prompt = DIALECTS[dialect].parse(played.body, "wire", Memo())
        defects = linter().defects(Turn("main", 1, prompt))
        faults = {defect.code for defect in defects if defect.kind != "expected"}
        faults = {code for code in faults if CODES[code].kind != "expected"}
        assert faults <= OF_CONTENT
        linter().outlook(Turn("main", 1, prompt))


@given(bodies(), st.sets(st.integers(0, 12), max_size=6))
def test_lint_findings_of_any_body_have_places(body, places):
    body = with_breakpoints(body, {place for place in places if place < len(places_for_breakpoints(body))})
    raw = json.dumps(body).encode()
    dialect = dialect_of(raw)
    assert dialect is not None
    turn = Turn("main", 1, dialect.parse(raw, "wire", Memo()))
    for defect in linter().defects(turn):
        assert 0 <= defect.at < len(turn.prompt) or defect.at == -1
        assert (defect.tokens or 0) >= 0
    outlook = linter().outlook(turn)
    assert 0 <= (outlook.cached or 0) <= max(1, outlook.tokens)
