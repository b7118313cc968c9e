"""Codes: each has a name of its own, a fix for whoever writes the agent and one for whoever runs it, and an actor."""

from __future__ import annotations

from typing import get_args

import pytest

from helpers.each import each
from lore.model.codes import CODES, About, Actor, CauseKind, CauseSection, Code, actor_of, fix_of


def test_members_and_rows_are_the_same_codes_in_order():
    assert list(CODES) == list(Code) == sorted(CODES)


def test_a_member_is_its_code_as_text_and_finds_its_row():
    assert f"{Code.DATE_IN_PREFIX}" == Code.DATE_IN_PREFIX == "LORE101"
    assert CODES["LORE101"] is CODES[Code.DATE_IN_PREFIX]


@each(Code)
def test_a_member_is_named_like_its_code(code):
    assert code.name == CODES[code].name.upper().replace("-", "_")


def test_no_two_codes_have_one_name():
    assert len({row.name for row in CODES.values()}) == len(CODES)


@pytest.mark.parametrize("reader", ["author", "user"])
@each(Code)
def test_a_fix_is_one_sentence_for_each_reader(code, reader):
    fix = fix_of(code, reader)
    assert fix == (CODES[code].fix if reader == "author" else CODES[code].fix_user)
    assert fix[:1].isupper()
    assert fix.endswith(".")
    assert not [part for part in fix[:-1].split(". ")[1:] if part[:1].isupper()]


@each(Code)
def test_kind_actor_and_section_are_words_of_theirs(code):
    row = CODES[code]
    assert row.kind in get_args(CauseKind)
    assert row.actor in get_args(Actor)
    assert row.section is None or row.section in get_args(CauseSection)


@each(Code)
def test_what_is_expected_asks_nobody_to_act_and_all_else_somebody(code):
    assert (CODES[code].actor == "nobody") == (CODES[code].kind == "expected")
    assert actor_of(code, "expected") == "nobody"


@pytest.mark.parametrize(
    ("code", "actor"), [("LORE103", "user"), ("LORE105", "author"), ("LORE120", "user"), ("LORE301", "provider")]
)
def test_whoever_runs_an_agent_can_act_where_a_fix_is_theirs(code, actor):
    # "can act: author" stood above "Connect MCP servers before the first message"
    assert actor_of(code, "waste", "user") == actor


def test_a_row_of_a_plug_in_has_the_authors_fix_for_everybody(monkeypatch):
    monkeypatch.setitem(CODES, "ACME1", About("acme", "waste", "Call Acme."))
    assert fix_of("ACME1", "user") == fix_of("ACME1", "author") == "Call Acme."
    assert actor_of("ACME1", "waste") == "author"
