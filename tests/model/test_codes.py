"""Codes: each has one name, a fix for the agent's author and one for its user, short words for a loss, an actor."""

from __future__ import annotations

from typing import get_args

import pytest
from msgspec.structs import replace

from helpers.each import each
from lore.model.codes import CODES, Actor, CauseKind, CauseSection, Code, CodeFacts, actor_of, fix_of
from lore.model.evidence import Damage, SignSeen
from lore.model.results.overview import SpendingCause
from lore.report.sentences import cause_in_words, short_of

ALL_CODES = {name: code for name, code in vars(Code).items() if name.isupper()}
LOSSES = [
    code for code in ALL_CODES.values() if code[:5] in ("LORE1", "LORE3")
]  # a turn can lose tokens because of these


def test_members_and_rows_agree():
    assert list(CODES) == list(ALL_CODES.values()) == sorted(CODES)
    assert list(ALL_CODES) == [row.name.upper().replace("-", "_") for row in CODES.values()]


@each(ALL_CODES)
def test_row_has_known_words_and_fixes(code):
    row = CODES[code]
    assert row.kind in get_args(CauseKind)
    assert row.actor in get_args(Actor)
    assert row.section is None or row.section in get_args(CauseSection)
    assert (row.actor == "nobody") == (row.kind == "expected")
    for fix in filter(None, (row.fix, row.fix_user, row.fix_done, *row.fixes.values())):
        assert fix[:1].isupper()
        assert fix.endswith(".")
        assert not [part for part in fix[:-1].split(". ")[1:] if part[:1].isupper()]  # one sentence


@pytest.mark.parametrize(
    ("code", "actor"), [("LORE103", "user"), ("LORE105", "author"), ("LORE120", "user"), ("LORE301", "provider")]
)
def test_user_is_actor_if_fix_is_theirs(code, actor):
    assert actor_of(code, "waste", "user") == actor
    assert actor_of(code, "expected", "user") == "nobody"


def test_plugin_code_has_one_fix_for_all(monkeypatch):
    monkeypatch.setitem(CODES, "ACME1", CodeFacts("acme", "waste", "Call Acme."))
    assert fix_of("ACME1", "user") == fix_of("ACME1", "author") == "Call Acme."
    assert actor_of("ACME1", "waste") == "author"


def cause(code: str, *names: str) -> SpendingCause:
    row = CODES[code]
    return SpendingCause(
        code=code, name=row.name, kind=row.kind, actor=row.actor, names=list(names), lifetime=None, sessions=1,
        turns=1, tokens=1, dollars=None, says="", fix=row.fix, command="",
    )  # fmt: skip


@each(LOSSES)
def test_loss_has_short_words_and_tip(code):
    row = CODES[code]
    assert row.short != row.name.replace("-", " ")
    assert "lore " in row.tip or 0 < len(row.tip.split()) <= 9
    assert not (row.tip.startswith("nothing") and row.kind == "waste")
    if "{}" in (row.short_named or "{}"):
        assert '"x", "y"' in cause_in_words(cause(code, "x", "y")).says


def test_unknown_shrinking_does_not_blame_tool_results():
    shrank = cause_in_words(replace(cause(Code.TOOL_RESULT_REWRITTEN), kind="unattributable"))
    assert "shorter" in shrank.says
    assert "lore record" in shrank.fix
    for_user = replace(cause(Code.TOOL_RESULT_REWRITTEN), fix=fix_of(Code.TOOL_RESULT_REWRITTEN, "user"))
    assert "print less" in cause_in_words(for_user).fix
    unsure = fix_of(Code.TOOL_RESULT_REWRITTEN, "user", "unattributable")
    assert unsure == fix_of(Code.CLIENT_CAUSE_UNKNOWN, "user")
    assert fix_of(Code.TOOL_RESULT_REWRITTEN, "user", "waste") == CODES[Code.TOOL_RESULT_REWRITTEN].fix_user


@each([Code.CACHE_EXPIRED, Code.RESUME_RERENDERED])
def test_cause_without_certainty_is_called_possible(code):
    worded = cause_in_words(replace(cause(code), kind="unattributable"))
    assert worded.says == f"possibly {CODES[code].short}"
    assert short_of(code, "", "unattributable") == worded.says
    assert short_of(code, "", CODES[code].kind) == CODES[code].short


def test_cleared_content_is_no_certain_image():
    shown = cause_in_words(replace(cause(Code.IMAGE_CHANGED), kind="unattributable"))
    assert (shown.says, "lore record" in shown.fix) == ("the client cleared content, possibly an image", True)
    assert fix_of(Code.IMAGE_CHANGED, "user", "unattributable") == fix_of(Code.CLIENT_CAUSE_UNKNOWN, "user")


def test_thinking_switched_for_a_skill_has_own_fix():
    evidence = SignSeen("thinking", ("pdf",), before="on", after="off")
    assert evidence.sentence() == "extended thinking was switched from on to off for pdf"
    assert SignSeen("thinking", ("planContent",), (), "off", "on").sentence().endswith("on after an accepted plan")
    kept = SignSeen("thinking", before="on", after="off")
    fixes = [fix_of("LORE120", "user", None, one.fix_detail()) for one in (evidence, kept)]
    assert "2.1.38" in fixes[0]
    assert fixes[1] == CODES["LORE120"].fix_user
    assert "plan" in fix_of("LORE120", "author", None, evidence.fix_detail())


@each(
    "answer, fix",
    [
        ("401): no key", "key"),
        ("404): no model", "name"),
        ("400): content filter", "text"),
        ("400): API key not valid", "key"),
    ],
)
def test_fix_of_refusal_follows_its_status(answer, fix):
    refusal = Damage(f"x refused a request (HTTP {answer}")
    assert fix in fix_of("LORE231", "author", detail=refusal.fix_detail())
