"""Templates whose roles must alternate take a session in which knowledge changes, at every turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.running import lore

KNOWS = str(Path(__file__).parents[2] / "fixtures" / "sessions" / "knowledge.jsonl")
ALTERNATING = (
    "{{ bos_token }}{% set system = messages[0].content if messages[0].role == 'system' else '' %}"
    "{% for m in (messages[1:] if system else messages) %}{% set asks = m.role in ['user', 'tool'] %}"
    "{% if asks != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles take turns: user, then model') }}{% endif %}"
    "<start_of_turn>{{ 'user' if asks else 'model' }}\n{% if loop.first and system %}{{ system }}\n\n{% endif %}"
    "{{ m.content|trim }}{% for c in m.tool_calls or [] %}{{ c.function|tojson }}{% endfor %}<end_of_turn>\n"
    "{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)


@pytest.fixture
def template(tmp_path):
    path = tmp_path / "alternating.jinja"
    path.write_text(ALTERNATING)
    return str(path)


@pytest.mark.parametrize("tail", ["system", "user", "persist"])
def test_alternating_template_renders_every_turn(template, tail):
    """A durable delta was a user message before the user's own, which the template refused."""
    bodies = [lore("assemble", KNOWS, "--template", template, "--tail", tail, "--turn", str(n)) for n in range(1, 5)]
    assert [ran.code for ran in bodies] == [0] * 4, bodies
    assert ["[knowledge update" in ran.out.partition("<end_of_turn>")[2] for ran in bodies] == [
        False,
        False,
        True,
        True,
    ]
    update = bodies[2].out.rpartition("<start_of_turn>user\n")[2].partition("<end_of_turn>")[0]
    assert "\n\nThen drop the workaround for 3.9 in ini.py." in update


@pytest.mark.parametrize("tail", ["system", "user", "persist"])
def test_alternating_template_extends_the_previous_turn(template, tail, tmp_path):
    made = lore("assemble", KNOWS, "--template", template, "--tail", tail, "--all")
    turns = tmp_path / "turns.jsonl"
    turns.write_text(made.out)
    found = lore("diff-prefix", str(turns), "--fail-under", "1.0", "--json")
    assert (made.code, found.code) == (0, 0), (made.err, found.out, found.err)
    stable = 0
    for one in made.lines:
        assert one["keep_bytes"] == stable
        stable += sum(len(part["data"].encode()) for part in one["append"]) - one["tail_bytes"]


def test_only_the_requested_turn_is_rendered(tmp_path):
    """Every turn up to it was rendered, each with all of its history: 300 turns took half a minute, one takes one."""
    path = tmp_path / "late.jinja"
    path.write_text("{% if messages|length < 4 %}{{ raise_exception('too early') }}{% endif %}{{ messages|length }}")
    codes = [lore("assemble", KNOWS, "--template", str(path), "--turn", str(turn)).code for turn in (1, 4)]
    every = lore("assemble", KNOWS, "--template", str(path), "--all")
    assert (codes, every.code) == ([2, 0], 2)
    assert "too early" in every.err
