"""Layouts of a capture: their tails, requests that are not sent, and the comparison."""

import json
from pathlib import Path

import pytest

from lore.commands.main import main
from lore_plugins.replay.plan import VaryingSystem
from lore_plugins.replay.replaying import best_layout
from lore_plugins.replay.results import ReplayedLayout
from plugins.replay.engines import VLLM, serving

pytest.importorskip("httpx")

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
CLOCK, STABLE = FIXTURES / "recordings" / "clock_in_system.jsonl", FIXTURES / "recordings" / "stable.jsonl"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def replay(recording, url, *more):
    return ["replay", str(recording), "--server", url, "--pace", "0", "-o", "c.jsonl", *more]


def test_changing_system_text_moves_to_the_tail(capsys):
    engine, layouts = VLLM(), "recorded:openai-chat,user:openai-chat,persist:openai-chat"
    with serving(engine) as url:
        assert main(replay(CLOCK, url, "--layouts", layouts, "--json")) == 0
        found = json.loads(capsys.readouterr().out)
        assert main(replay(CLOCK, url, "--layouts", layouts, "--force", "--no-color")) == 0
        said = capsys.readouterr().out

    recorded, user, persist = found["layouts"]
    assert (recorded["moved_turns"], recorded["assembled"]) == (0, False)
    assert (user["moved_turns"], persist["moved_turns"]) == (4, 4)
    for body in engine.asked[4:8]:
        assert "date is" not in json.dumps(body["messages"][0])
        assert "date is" in json.dumps(body["messages"][-1])
    assert recorded["read_share"] < user["read_share"] < persist["read_share"]
    assert found["reads_most"] == "persist:openai-chat"
    assert all(row["computed_tokens"] == row["prompt_tokens"] - row["read_tokens"] for row in found["layouts"])
    best, other = (f"{100 * row['read_share']:.1f} %" for row in (persist, user))
    shares = f"{best} of its prompt tokens; user:openai-chat {other}"
    assert f"persist:openai-chat reads most: {shares}" in said
    assert "changing lines of its system prompt are moved to the tail (344 bytes in 4 " in said
    assert "tokens read, turn by turn" in said
    assert "the cache was warm" not in said  # each run has salts of its own


def test_resumed_comparison_keeps_its_salts(capsys):
    engine = VLLM()
    with serving(engine) as url:
        arguments = replay(CLOCK, url, "--layouts", "user:openai-chat,persist:openai-chat", "--json")
        assert main([*arguments, "--turns", "2"]) == 0
        assert main([*arguments, "--resume"]) == 0

    names = [f"c.{name}-openai-chat.jsonl" for name in ("user", "persist")]
    assert [len(Path(name).read_bytes().splitlines()) for name in names] == [4, 4]
    assert len({body["cache_salt"] for body in engine.asked}) == 2
    assert len(engine.asked) == 8


def test_layouts_keep_the_recorded_order_of_chains(capsys):
    lines, talks = [], {"one": [], "two": []}
    for number, name in enumerate(("one", "one", "two", "two", "one", "two")):
        talk = talks[name]
        talk.append({"role": "user", "content": f"{name} asks {len(talk)} " + f"of {name} " * 40})
        body = {"model": "m", "messages": [{"role": "system", "content": f"You are {name}. " * 40}, *talk]}
        talk.append({"role": "assistant", "content": f"{name} says {number}"})
        call = {"method": "POST", "url": "http://x/v1/chat/completions", "headers": {}, "body": body}
        answer = {
            "choices": [{"index": 0, "message": talk[-1]}],
            "usage": {"prompt_tokens": 300, "completion_tokens": 5},
        }
        answer = {"status": 200, "headers": {}, "body": answer}
        lines.append(json.dumps({"request": {**call, "timestamp": 1.7e9 + number}, "response": answer}))
    Path("p.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    engine = VLLM()
    with serving(engine) as url:
        assert main(replay("p.jsonl", url, "--layouts", "recorded,user:openai-responses", "--json")) == 0

    asked = [(body.get("messages") or body["input"])[-1]["content"] for body in engine.asked]
    asked = [content if isinstance(content, str) else content[0]["text"] for content in asked]
    assert [text.split()[0] for text in asked] == ["one", "one", "two", "two", "one", "two"] * 2


def _line(kind, **members):
    return json.dumps({"kind": kind, **members}, separators=(",", ":")).encode() + b"\n"


def test_rarely_changing_system_prompt_stays():
    turns = [_line("turn_started", turn=number) for number in range(1, 7)]
    lines = [_line("session_started", system="one\ntwo"), *turns[:3], _line("session_changed", system="one\n2"), *turns]
    varying = VaryingSystem(lines)
    assert [*varying.lines(lines)] == lines
    assert (varying.moved_turns, varying.moved_bytes) == (0, 0)


def test_changing_block_without_text_stays():
    """Codex sends a first request without developer messages; these were once lost."""
    more = {"role": "developer", "content": "rules"}
    lines = [_line("session_started", system=["a"]), _line("turn_started", turn=1)]
    lines += [_line("session_changed", system=["a", more]), _line("turn_started", turn=2)]
    assert [json.loads(line) for line in VaryingSystem(lines).lines(lines)] == [json.loads(line) for line in lines]


def _layout(name, share, **more):
    counts = {"prompt_tokens": 100, "read_tokens": round(share * 100), "computed_tokens": 100 - round(share * 100)}
    known = {"capture": "c", "planned": 2, "requests": 2, "resumed": 0, "skipped": {}, "left_out": {}, "tail": None}
    return ReplayedLayout(name=name, dialect="openai-chat", read_share=share, **{**known, **counts, **more})


def test_layouts_with_unequal_requests_are_not_compared():
    assert best_layout([_layout("a", 0.5), _layout("b", 0.7, requests=1)]) is None
    assert best_layout([_layout("a", 0.5)]) is None


def _asked(number, previous, text):
    body = {"model": "m", "input": [{"role": "user", "content": text}], "previous_response_id": previous}
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"ok {text}"}]}
    usage = {"input_tokens": 100, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 0}}
    answer = {"id": f"r{number}", "object": "response", "output": [item], "usage": usage}
    asked = {"method": "POST", "url": "http://x/v1/responses", "headers": {}, "body": body, "timestamp": 1.7e9 + number}
    return json.dumps({"request": asked, "response": {"status": 200, "headers": {}, "body": answer}}) + "\n"


@pytest.mark.parametrize("dialect", [None, "openai-chat", "anthropic"])
def test_partial_requests_are_named_and_not_sent(dialect, capsys):
    rows = [("gone", "lost"), ("r0", "more of it"), (None, "another one " * 9), ("r2", "goes on")]
    Path("p.jsonl").write_text("".join(_asked(at, *row) for at, row in enumerate(rows)), "utf-8")
    engine = VLLM()
    with serving(engine) as url:
        assert main(replay("p.jsonl", url, *(["--dialect", dialect] if dialect else []), "--json")) == 0
    found = json.loads(capsys.readouterr().out)

    (layout,) = found["layouts"]
    assert layout["skipped"] == {"whose beginning is not recorded": 2}
    assert layout["unsent"] == {"whose beginning is not recorded": ["#1", "#2"]}
    assert "not sent: 2 requests whose beginning is not recorded (#1, #2)" in found["notes"]
    assert len(engine.asked) == 2
    assert not any("lost" in json.dumps(body) for body in engine.asked)
    assert "ok another one" in json.dumps(engine.asked[1])
