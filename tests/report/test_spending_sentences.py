"""What was paid again, in words: every code that can carry a loss has some, short enough for a line."""

from __future__ import annotations

from msgspec.structs import replace

from helpers.each import each
from lore.model.codes import CODES, Code, fix_of
from lore.model.results.overview import SpendingCause
from lore.report.sentences.spending import WORDS, cause_in_words

LOSSES = [code for code in Code if code[:5] in ("LORE1", "LORE3")]  # prefixes and bills: only these are of turns


def cause(code: Code, *names: str) -> SpendingCause:
    about = CODES[code]
    return SpendingCause(
        code=code, name=about.name, kind=about.kind, actor=about.actor, names=list(names), lifetime=None, sessions=1,
        turns=1, tokens=1, dollars=None, says="", fix=about.fix_user, command="",
    )  # fmt: skip


@each(LOSSES)
def test_every_code_that_can_carry_a_loss_has_words_of_its_own(code):
    words = WORDS[code]
    assert words.plain != CODES[code].name.replace("-", " ")
    assert words.advice.startswith("lore ") or 0 < len(words.advice.split()) <= 9


@each(code for code in LOSSES if "{}" in (WORDS[code].named or "{}"))
def test_names_stand_in_the_sentence(code):
    assert '"x", "y"' in cause_in_words(cause(code, "x", "y")).says


@each(LOSSES)
def test_waste_has_something_to_do(code):
    assert not (WORDS[code].advice.startswith("nothing") and CODES[code].kind == "waste")


def test_a_prompt_that_shrank_for_no_known_reason_is_not_blamed_on_the_results_of_tools():
    shrank = cause_in_words(replace(cause(Code.TOOL_RESULT_REWRITTEN), kind="unattributable"))
    assert "shorter" in shrank.says
    assert "request bodies" in shrank.fix
    assert "print less" in cause_in_words(cause(Code.TOOL_RESULT_REWRITTEN)).fix
    unsure = fix_of(Code.TOOL_RESULT_REWRITTEN, "user", "unattributable")
    assert unsure == fix_of(Code.CLIENT_CAUSE_UNKNOWN, "user")
    assert fix_of(Code.TOOL_RESULT_REWRITTEN, "user", "waste") == CODES[Code.TOOL_RESULT_REWRITTEN].fix_user
