"""Every kind of credential, at every place of a request, through the commands and reports that show something of it.

A recording of two requests in which the credential changes, in its middle or whole: what is shown around the change
may hold neither the old nor the new one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from cli.running import lore
from helpers.credentials import SAMPLES, Sample

TOOL = {"type": "object", "properties": {}}
CALL = [{"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a"}}]


def _result(text: str) -> list[dict[str, Any]]:
    return [{"type": "tool_result", "tool_use_id": "toolu_1", "content": text}]


PLACES = {
    "system": lambda body, text: body.update(system=text),
    "system, in the middle of a long one": lambda body, text: body.update(
        system="word " * 5_000 + text + " word" * 5_000
    ),
    "tool name": lambda body, text: body["tools"][0].update(name=text),
    "tool description": lambda body, text: body["tools"][0].update(description=f"reads with {text} a file"),
    "call": lambda body, text: body["messages"][1]["content"][0].update(input={"path": text}),
    "result": lambda body, text: body["messages"][2].update(content=_result(f"it printed:\n{text}\nand ended")),
    "message": lambda body, text: body["messages"][0].update(content=f"use {text} for it"),
    "url": lambda body, text: body["messages"][0].update(content=f"see https://example.org/a?b={text}&c=d"),
    "model": lambda body, text: body.update(model=text),
    "role": lambda body, text: body["messages"][0].update(role=text),
    "parameter": lambda body, text: body.update(metadata={"user_id": text}),
    "lifetime": lambda body, text: body["tools"][0].update(cache_control={"type": "ephemeral", "ttl": text}),
}
COMMANDS = {
    **{
        f"check {kind}": ("check", "--report", kind)
        for kind in ("terminal", "json", "jsonl", "markdown", "junit", "sarif", "github")
    },
    "check verbose": ("check", "-v"),
    "diff-prefix": ("diff-prefix",),
    "diff-prefix json": ("diff-prefix", "--json"),
    "lint": ("lint",),
    "lint json": ("lint", "--json"),
    "simulate": ("simulate",),
    "simulate json": ("simulate", "--json"),
    "page": ("check", "--report", "html=page.html"),
    "trace": ("report", "--format", "trace"),
    "fold": ("fold",),
}


def _body(turn: int) -> dict[str, Any]:
    messages = [
        {"role": "user", "content": "read it"},
        {"role": "assistant", "content": json.loads(json.dumps(CALL))},
        {"role": "user", "content": _result("text")},
        {"role": "assistant", "content": "read"},
        {"role": "user", "content": "go on"},
    ]
    return {
        "model": "claude-sonnet-4-5",
        "max_tokens": 64,
        "system": "You are exact.",
        "tools": [{"name": "read", "description": "reads", "input_schema": TOOL}],
        "messages": messages[: 3 + 2 * turn],
    }


def _changed(sample: Sample) -> Sample:
    """The same credential, its second half the other way round."""
    half = len(sample.secret) // 2
    secret = sample.secret[:half] + sample.secret[: half - 1 : -1]
    return Sample(sample.text.replace(sample.secret, secret), secret)


def _leak(sample: Sample, shown: str) -> str | None:
    secret = sample.secret[4:] if len(sample.secret) > 12 else sample.secret
    return next((secret[at : at + 8] for at in range(max(1, len(secret) - 7)) if secret[at : at + 8] in shown), None)


def _cases() -> Iterator[Any]:
    """Each kind at each place, by a command in turn: so each place meets each command. Every fifth kind runs always."""
    for kind, place in product(range(len(SAMPLES)), range(len(PLACES))):
        words = [list(SAMPLES)[kind], list(PLACES)[place], list(COMMANDS)[(kind + place) % len(COMMANDS)]]
        always = kind % 5 == 0 and place == kind % len(PLACES)
        yield pytest.param(*words, id="-".join(words), marks=[] if always else [pytest.mark.soak])


@pytest.mark.parametrize(("kind", "place", "command"), [*_cases()])
def test_no_credential_is_shown(kind, place, command, tmp_path, monkeypatch):
    """42 of 66 kinds were, and of a known one that changed the piece around the change."""
    monkeypatch.chdir(tmp_path)
    before, after = SAMPLES[kind], _changed(SAMPLES[kind])
    bodies = [_body(0), _body(1)]
    for body, sample in zip(bodies, (before, after), strict=True):
        PLACES[place](body, sample.text)
    (tmp_path / "two.jsonl").write_text("".join(json.dumps(body) + "\n" for body in bodies))
    name, *options = COMMANDS[command]
    ran = lore(name, "two.jsonl", *options)
    shown = ran.out + ran.err
    page = tmp_path / "page.html"
    shown += page.read_text() if page.exists() else ""
    assert shown.strip()
    assert "Traceback" not in shown
    assert _leak(before, shown) is None, shown
    assert _leak(after, shown) is None, shown


def test_a_word_that_no_reader_knows_is_masked_before_it_is_cut(tmp_path, monkeypatch):
    """A problem quoted sixty characters of it, and of what was longer no kind is known by its beginning."""
    monkeypatch.chdir(tmp_path)
    word = "x " * 15 + SAMPLES["digitalocean"].text
    records = [
        {
            "type": "user",
            "uuid": "a",
            "parentUuid": None,
            "sessionId": "s",
            "message": {"role": "user", "content": "go"},
        },
        {"type": word, "uuid": "b", "parentUuid": "a", "sessionId": "s"},
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    ran = lore("check", "log.jsonl", "--json", "--format", "claude-code")
    assert "unknown record type" in ran.out
    assert _leak(SAMPLES["digitalocean"], ran.out + ran.err) is None
