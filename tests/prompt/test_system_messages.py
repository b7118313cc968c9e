"""Models that take several system messages: in mid-conversation, and at the start."""

from __future__ import annotations

import re

import pytest

from lore.prompt.assemble import Assembler
from lore.prompt.base import Rules
from lore.prompt.dialects import dialect_named
from lore.prompt.dialects.template import JinjaTemplate
from lore.prompt.system_messages import ROWS, TEMPLATES, placement, takes_one_system_message
from model.making import Fold, append, event, started, user

SETTING = Rules(system_in_conversation=("qwen3-*", "Acme/*"), one_system_message=("acme-*",))


def rendered(role):
    """Return a template that writes system messages in place, or this text instead."""
    each = "{{ '<' ~ m.role ~ '>' ~ (m.content or '') }}"
    return JinjaTemplate("{% for m in messages %}" + role.replace("EACH", each) + "{% endfor %}")


FIRST = "{% if m.role != 'system' or loop.first %}EACH{% endif %}"
REFUSING = "{% if m.role == 'system' and not loop.first %}{{ raise_exception('at the beginning') }}{% endif %}EACH"
MERGING = JinjaTemplate(
    "{% for m in messages if m.role == 'system' %}{{ m.content }}{% endfor %}"
    "{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}"
)
NO_LOOPS = "{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}EACH"


@pytest.mark.parametrize(
    ("model", "dialect", "accepted", "by"),
    [
        ("claude-opus-5", "anthropic", True, "row"),
        ("claude-opus-4-8-20260101", "anthropic", True, "row"),
        ("anthropic/claude-opus-5", "anthropic", True, "row"),
        ("claude-opus-4-6", "anthropic", False, "unknown"),
        ("claude-sonnet-5", "anthropic", False, "unknown"),
        ("claude-opus-5", "openai-chat", False, "unknown"),
        ("claude-opus-5", "bedrock", False, "dialect"),
        ("gpt-4o", "openai-chat", True, "row"),
        ("o3-mini", "openai-chat", True, "row"),
        ("gpt-4o", "anthropic", False, "unknown"),
        ("qwen3", "openai-chat", False, "unknown"),
        ("Qwen/Qwen3.6-27B", "openai-chat", False, "template"),
        ("openai/gpt-oss-20b", "openai-chat", False, "template"),
        ("mistral-7b-instruct", "openai-chat", False, "template"),
        ("mistral-large-latest", "openai-chat", True, "row"),
        ("gpt-4o", "template", False, "unknown"),
        (None, "openai-chat", False, "unknown"),
    ],
)
def test_only_models_with_a_row_take_one(model, dialect, accepted, by):
    assert placement(model, dialect_named(dialect), Rules())[:2] == (accepted, by)


@pytest.mark.parametrize(
    ("model", "dialect", "accepted"),
    [
        ("qwen3-32b", "openai-chat", True),
        ("Qwen/Qwen3-32B", "openai-chat", True),
        ("acme/one", "anthropic", True),
        ("qwen3-32b", "template", True),
        ("qwen3-32b", "gemini", False),
        ("qwen2-7b", "openai-chat", False),
    ],
)
def test_setting_names_models_unknown_to_lore(model, dialect, accepted):
    assert placement(model, dialect_named(dialect), SETTING).accepted is accepted


def test_a_setting_wins_over_what_published_templates_do():
    rules = Rules(system_in_conversation=("qwen3.6-*",))
    assert placement("qwen3.6-27b", dialect_named("openai-chat"), rules)[:2] == (True, "setting")


@pytest.mark.parametrize(
    ("dialect", "does"),
    [(rendered("EACH"), "renders"), (rendered(REFUSING), "refuses"), (rendered(FIRST), "ignores"),
     (MERGING, "merges"), (rendered(NO_LOOPS), "renders"), (JinjaTemplate("{{ raise_exception('no') }}"), None)],
)  # fmt: skip
def test_a_template_is_asked_what_it_does(dialect, does):
    assert dialect.late_system() == does
    assert placement("qwen3-32b", dialect, SETTING).accepted is (does in ("renders", None))
    assert not placement("qwen3-32b", dialect, Rules()).accepted


@pytest.mark.parametrize(
    ("dialect", "written"),
    [(rendered("EACH"), "<system>S<system>T<user>u"), (rendered(REFUSING), "<system>S\n\nT<user>u"),
     (rendered(FIRST), "<system>S\n\nT<user>u"), (MERGING, "STu")],
)  # fmt: skip
def test_template_gets_leading_system_messages_it_writes(dialect, written):
    fold = Fold(started(system=["S", "T"]), append(user("u", "u")), event("turn_started", turn=1))
    prompt = Assembler(dialect).assemble(fold.state, fold.state.main()).prompt
    assert dialect.write(prompt).decode() == written


@pytest.mark.parametrize(
    ("model", "dialect", "one"),
    [
        ("gpt-4o", "openai-chat", False),
        ("Qwen/Qwen3.5-27B", "openai-chat", True),
        ("Qwen/Qwen3.5-27B", "openai-responses", True),
        ("Qwen/Qwen3.5-27B", "anthropic", False),
        ("qwen3-32b", "openai-chat", False),
        ("gpt-oss-20b", "openai-chat", True),
        ("deepseek-v3", "openai-chat", False),
        ("gemma-3-27b-it", "openai-chat", True),
        ("gemma-4-27b", "openai-chat", False),
        ("Acme-1", "openai-chat", True),
        (None, "openai-chat", False),
    ],
)
def test_one_system_message_if_others_are_lost(model, dialect, one):
    assert takes_one_system_message(model, dialect_named(dialect), SETTING) is one


def test_every_row_is_dated_and_has_a_source():
    for row in (*ROWS, *TEMPLATES):
        assert re.fullmatch(r"20\d\d-\d\d", row.since)
        assert row.source


@pytest.mark.parametrize("name", ["system_in_conversation", "one_system_message"])
def test_an_empty_pattern_is_a_fault(name):
    assert "names models" in Rules(**{name: ("",)}).fault()
    assert "list of models" in Rules(**{name: "qwen3-*"}).fault()
