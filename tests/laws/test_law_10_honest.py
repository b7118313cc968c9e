"""Law 10: honest. Unknown is null, never 0; every figure has its fidelity; nothing is guessed."""

import json

import pytest
from hypothesis import given

from helpers.each import each
from helpers.strategies import any_events, write
from lore.commands.main import main
from lore.formats.bills import decode_usage
from lore.model import events as e
from model.making import Fold

COUNTS = ("uncached_tokens", "read_tokens", "write_tokens", "output_tokens")
FIDELITIES = {"wire", "parsed", "structural", "reconstructed", "rendered"}
BODY = {"model": "claude-x", "system": "s", "messages": [{"role": "user", "content": "hi " * 50}]}
OTHER = {**BODY, "system": "t"}


@pytest.fixture
def answer(desk, capsys):
    """A function that writes files, runs lore, and returns its JSON lines."""

    def run(*arguments: str, **files: bytes):
        for name, data in files.items():
            (desk / name.replace("_", ".")).write_bytes(data)
        main([*arguments, "--json"])
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def _log(*usages) -> bytes:
    lines = [{"kind": "session_started", "session_id": "s", "model": "claude-x"}]
    for number, usage in enumerate(usages, 1):
        lines.append({"kind": "append", "item": {"type": "user_message", "uuid": f"u{number}", "text": "hi"}})
        lines.append({"kind": "turn_started", "turn": number})
        lines.append({"kind": "turn_completed", "turn": number, **({} if usage is None else {"usage": usage})})
    return b"\n".join(map(write, lines))


@pytest.mark.parametrize("usages", [(None, None), ({}, {}), *(({name: 7}, None) for name in COUNTS)])
def test_fold_has_only_recorded_counts(answer, usages):
    (folded,) = answer("fold", "a.jsonl", a_jsonl=_log(*usages))
    assert {count_name: folded["usage"][count_name] for count_name in COUNTS} == {
        **dict.fromkeys(COUNTS),
        **(usages[0] or {}),
    }
    assert folded["session"]["fidelity"] == "reconstructed"


@given(any_events())
def test_unrecorded_count_stays_null(events):
    recorded = set()
    for event in events:
        if isinstance(event, e.TurnCompleted | e.TurnFailed | e.TurnCanceled) and event.usage is not None:
            recorded |= {name for name in COUNTS if getattr(event.usage, name) is not None}
    usage = Fold(*events).usage
    for name in set(COUNTS) - recorded:
        assert getattr(usage, name) is None


def test_replaced_end_without_usage_leaves_null():
    ended = e.TurnCompleted(turn=1, usage=e.Usage(uncached_tokens=5))
    fold = Fold(e.TurnStarted(turn=1), ended, e.TurnFailed(turn=1, usage=None))
    assert fold.usage.uncached_tokens is None


def test_diff_without_usage_and_tokens_has_nulls(answer):
    (diff,) = answer("diff-prefix", "a.json", "b.json", a_json=write(BODY), b_json=write(OTHER))
    assert [cache["confidence"] for cache in diff["caches"]] == ["ceiling"]  # without times and usage: the best case
    (diff,) = answer("diff-prefix", "a.json", "b.json", "--no-tokens")
    assert (diff["billed"], diff["verdict"]) == (None, None)
    tokens = [diff["prompt"][name] for name in ("left_tokens", "right_tokens", "common_prefix_tokens", "tokenizer")]
    assert tokens == [None] * 4


def test_diff_shows_only_recorded_counts(answer):
    records = [write({"request": body, "usage": {"input_tokens": 5}}) for body in (BODY, OTHER)]
    (diff,) = answer("diff-prefix", "a.jsonl", a_jsonl=b"\n".join(records))
    assert diff["billed"] == {"uncached_tokens": 5, "read_tokens": None, "write_tokens": None, "output_tokens": None}
    assert diff["right"]["fidelity"] == "parsed"  # the body was stored as an object


@each([b"null", b"{}", b"[]", b'"x"', b'{"input_tokens":null}', b'{"input_tokens":-1}',
                                 b'{"input_tokens":true}', b'{"input_tokens":"5"}', b"{"])  # fmt: skip
def test_usage_without_counts_is_none(raw):
    assert decode_usage(raw) is None


def test_diff_of_texts_has_no_prompt_figures(answer):
    (diff,) = answer("diff-prefix", "a.txt", "b.txt", a_txt=b"one", b_txt=b"only")
    assert [diff[name] for name in ("prompt", "divergence", "billed", "reuse_ratio", "relation")] == [None] * 5
    assert diff["file"] == {"left_bytes": 3, "right_bytes": 4, "common_prefix_bytes": 2}


@pytest.mark.parametrize("command", ["pair", "session"])
def test_fidelity_is_on_both_sides_of_a_diff(answer, command):
    previous, current = write(BODY), write(OTHER)
    file_names = ("a.json", "b.json") if command == "pair" else ("c.jsonl",)
    (diff,) = answer("diff-prefix", *file_names, a_json=previous, b_json=current, c_jsonl=previous + b"\n" + current)
    assert (diff["left"]["fidelity"], diff["right"]["fidelity"]) == ("wire", "wire")


def test_findings_of_turn_have_fidelity_and_source(answer):
    (checked,) = answer("check", "a.jsonl", "--min-reuse", "0.99", a_jsonl=write(BODY) + b"\n" + write(OTHER))
    fidelities = {finding["code"]: (finding["fidelity"], finding["tokens"]) for finding in checked["findings"]}
    assert fidelities == {"LORE100": ("wire", "estimated"), "LORE401": ("wire", None)}


def test_fallen_read_without_cause_is_unattributable(answer):
    usage = {"read_tokens": 0, "write_tokens": 50_000}
    (checked,) = answer("check", "a.jsonl", a_jsonl=_log(usage, usage))
    assert [(finding["code"], finding["kind"], finding["tokens"]) for finding in checked["findings"]] == [
        ("LORE301", "unattributable", "recorded")
    ]


def test_missing_usage_is_no_finding(answer):
    (checked,) = answer("check", "a.jsonl", a_jsonl=_log({"read_tokens": 0, "write_tokens": 50_000}, None))
    assert checked["findings"] == []


def test_findings_of_recording_have_fidelity(recording, answer):
    (checked,) = answer("check", str(recording))
    about_turns = [finding for finding in checked["findings"] if finding["turn"] is not None]
    assert {finding["fidelity"] for finding in about_turns} <= FIDELITIES
    assert all(finding["tokens"] in ("recorded", "counted", "estimated") for finding in about_turns)
