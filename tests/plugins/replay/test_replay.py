"""`lore replay` into servers that cache like engines: reads equal predictions; errors and resumed runs."""

import json
import os
from itertools import count
from pathlib import Path

import pytest

from lore.commands.main import main
from plugins.replay.engines import VLLM, Anthropic, Engine, Everything, LlamaCpp, reset, serving, status

pytest.importorskip("httpx")

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
STABLE, CLOCK = FIXTURES / "recordings" / "stable.jsonl", FIXTURES / "recordings" / "clock_in_system.jsonl"
KNOWLEDGE = FIXTURES / "sessions" / "knowledge.jsonl"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.sleep", lambda _: None)
    for name in [name for name in os.environ if name.endswith("_API_KEY") or name.startswith("AWS_BEARER")]:
        monkeypatch.delenv(name)


def replayed(capsys, *arguments, code=0):
    """Run `lore replay` and return its JSON."""
    assert main(["replay", *map(str, arguments), "--json"]) == code, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def lines(path):
    return [json.loads(line) for line in Path(path).read_bytes().splitlines()]


@pytest.mark.parametrize(("kind", "cache"), [(VLLM, "vllm"), (LlamaCpp, "llama.cpp")])
def test_growing_session_is_read_as_predicted(kind, cache, capsys):
    with serving(kind()) as url:
        found = replayed(capsys, STABLE, "--server", url, "--dialect", "openai-chat", "-o", "c.jsonl")

    (layout,) = found["layouts"]
    turns = layout["simulated"]["turns"]
    assert found["engine"] == cache
    assert [turn["chain"] for turn in turns] == ["main"] * 4
    assert {turn["cache"] for turn in turns} == {cache}
    assert [turn["predicted"]["read_tokens"] for turn in turns] == [turn["billed"]["read_tokens"] for turn in turns]
    assert turns[0]["billed"]["read_tokens"] == 0
    assert layout["read_tokens"] > 1000
    assert (layout["requests"], layout["planned"]) == (4, 4)


@pytest.mark.parametrize("dialect", ["anthropic", "openai-chat", "openai-responses", "gemini", "bedrock"])
def test_each_api_reads_as_predicted(dialect, capsys):
    engine = Everything()
    with serving(engine) as url:
        found = replayed(capsys, STABLE, "--server", url, "--dialect", dialect, "-o", "c.jsonl")

    (layout,) = found["layouts"]
    turns = layout["simulated"]["turns"]
    assert len(turns) == len(engine.asked) == layout["planned"]
    assert turns[0]["billed"]["read_tokens"] == 0
    assert all(turn["billed"]["read_tokens"] > 100 for turn in turns[1:])
    assert [turn["predicted"]["read_tokens"] for turn in turns] == [turn["billed"]["read_tokens"] for turn in turns]
    assert not any("unknown" in note or "not report" in note for note in found["notes"])


def test_simulate_agrees_about_the_capture(capsys):
    with serving(VLLM()) as url:
        found = replayed(capsys, CLOCK, "--server", url, "--dialect", "openai-chat", "-o", "c.jsonl")
    assert main(["simulate", "c.jsonl", "--json"]) == 0

    assert json.loads(capsys.readouterr().out) == found["layouts"][0]["simulated"]
    assert [cause["code"] for cause in found["layouts"][0]["simulated"]["turns"][2]["causes"]] == ["LORE101"]
    assert main(["check", "c.jsonl"]) == 1


def test_bodies_are_sent_as_recorded(capsys):
    engine = Anthropic()
    with serving(engine) as url:
        replayed(capsys, STABLE, "--server", url, "--max-tokens", "3")

    for sent, line in zip(engine.asked, STABLE.read_bytes().splitlines(), strict=True):
        recorded = json.loads(line)["request"]
        assert sent == {**{key: value for key, value in recorded.items() if key != "stream"}, "max_tokens": 3}
    assert [path for path in engine.paths if not path.startswith("GET")] == ["/v1/messages"] * 4
    assert {headers["anthropic-version"] for headers in engine.headers} == {"2023-06-01"}
    assert not any("authorization" in headers or "x-api-key" in headers for headers in engine.headers)


def test_breakpoints_of_the_messages_api_are_measured(capsys, monkeypatch):
    seconds = count(1.8e9, 4)  # Anthropic's entries can be read after three
    monkeypatch.setattr("time.time", lambda: next(seconds))
    with serving(Anthropic()) as url:
        found = replayed(capsys, KNOWLEDGE, "--server", url, "-o", "c.jsonl")

    turns = found["layouts"][0]["simulated"]["turns"]
    assert [turn["predicted"]["read_tokens"] for turn in turns] == [turn["billed"]["read_tokens"] for turn in turns]
    assert all(turn["billed"]["read_tokens"] for turn in turns[1:])


def test_resume_continues_after_the_last_whole_record(capsys):
    engine = VLLM()
    with serving(engine) as url:
        arguments = (STABLE, "--server", url, "--dialect", "openai-chat", "-o", "c.jsonl")
        replayed(capsys, *arguments, "--turns", "2")
        data = Path("c.jsonl").read_bytes()
        Path("c.jsonl").write_bytes(data + data[:200])  # killed while it wrote
        found = replayed(capsys, *arguments, "--resume")

    assert len(engine.asked) == 4
    assert [len(body["messages"]) for body in engine.asked] == sorted({len(body["messages"]) for body in engine.asked})
    assert found["layouts"][0]["resumed"] == 2
    assert len(lines("c.jsonl")) == 4


def test_refused_request_is_sent_again_by_resume(capsys):
    engine = VLLM()
    with serving(engine) as url:
        arguments = ["replay", str(STABLE), "--server", url, "--dialect", "openai-chat", "-o", "c.jsonl"]
        assert main([*arguments, "--turns", "2"]) == 0
        engine.failing = [status(400, b'{"error":{"message":"too \\u001b[31mlong"}}')]
        assert main([*arguments, "--resume"]) == 3
        said = capsys.readouterr()
        assert main([*arguments, "--resume"]) == 0

    assert "answers 400: too long" in said.err
    assert "\x1b[31m" not in said.err + said.out
    assert "--resume --output c.jsonl" in said.out
    assert len(engine.asked) == 4
    assert len(lines("c.jsonl")) == 4


def test_rate_limits_and_lost_connections_are_retried(capsys, monkeypatch):
    waits = []
    monkeypatch.setattr("time.sleep", waits.append)
    engine = VLLM()
    engine.failing = [status(429, retry_after="7"), reset, status(503)]
    with serving(engine) as url:
        found = replayed(capsys, STABLE, "--server", url, "--dialect", "openai-chat", "-o", "c.jsonl")

    assert found["layouts"][0]["requests"] == len(engine.asked) == 4
    assert found["stopped"] is None
    assert waits[:3] == [7, 2, 4]  # the requested pause, else a growing one


def test_retries_and_waits_are_bounded(capsys):
    engine = VLLM()
    with serving(engine) as url:
        arguments = ["replay", str(STABLE), "--server", url, "--dialect", "openai-chat", "-o", "c.jsonl"]
        engine.failing = [status(500)] * 6
        assert main(arguments) == 2
        assert "answers 500: no, 6 times" in capsys.readouterr().err
        engine.failing = [status(429, retry_after="86400")]
        assert main(arguments) == 2
        assert "it asks to wait 86,400 s" in capsys.readouterr().err

    assert engine.asked == []
    assert not Path("c.jsonl").exists()


def _redirect(handler):
    status(302, location="http://127.0.0.1:9/v1/chat/completions")(handler)


def _endless(handler):
    handler.send_response(200)
    handler.end_headers()
    handler.close_connection = True
    for _ in range(400):
        handler.wfile.write(b"[" * 65536)


@pytest.mark.parametrize(("failure", "said"), [
    (_redirect, "redirects elsewhere (302)"),
    (_endless, "its answer has more than 16,777,216 bytes"),
    (status(200, b"<html>"), "answers 200 without a JSON object"),
    (status(200, b"[1]"), "answers 200 without a JSON object"),
    (status(200, b'"\xff\xfe"'), "without a JSON object"),
    (status(404, b"x" * 5000), "answers 404: xxxx"),
    (status(401, b'{"error":{"message":"bad key hunter2-hunter2-hunter2"}}'), "answers 401: bad key ***"),
])  # fmt: skip
def test_hostile_server_ends_the_run_with_one_line(failure, said, capsys, monkeypatch):
    monkeypatch.setenv("MY_KEY", "hunter2-hunter2-hunter2")
    engine = VLLM()
    engine.failing = [failure]
    with serving(engine) as url:
        arguments = ["--server", url, "--dialect", "openai-chat", "-o", "c.jsonl", "--api-key-env", "MY_KEY"]
        assert main(["replay", str(STABLE), *arguments]) == 2

    error = capsys.readouterr().err
    assert said in error
    assert len(error) < 1000
    assert "hunter2" not in error


def test_slow_answer_is_abandoned(capsys):
    engine = VLLM()
    engine.failing = [lambda _: engine.done.wait(60)]
    with serving(engine) as url:
        arguments = ["--server", url, "--dialect", "openai-chat", "-o", "c.jsonl", "--timeout", "0.3"]
        assert main(["replay", str(STABLE), *arguments]) == 2

    assert "no whole answer after 0.3 s" in capsys.readouterr().err


class Liar(Engine):
    """An engine that reports more reads than prompt tokens."""

    def answer(self, path, body):
        found = super().answer(path, body)
        found["usage"]["prompt_tokens_details"]["cached_tokens"] = 10**12
        return found


class Silent(VLLM):
    def answer(self, path, body):
        found = super().answer(path, body)
        found["usage"]["prompt_tokens_details"] = None
        return found


def test_impossible_read_count_is_rejected(capsys):
    with serving(Liar()) as url:
        found = replayed(
            capsys, STABLE, "--server", url, "--dialect", "openai-chat", "--cache", "vllm", "-o", "c.jsonl"
        )

    assert found["layouts"][0]["read_tokens"] is None
    assert found["layouts"][0]["simulated"]["agreement"]["turns"] == 0


def test_silent_server_gets_a_hint(capsys):
    with serving(Silent()) as url:
        found = replayed(capsys, STABLE, "--server", url, "--dialect", "openai-chat", "-o", "c.jsonl")

    assert any("--enable-prompt-tokens-details" in note for note in found["notes"])
    assert found["layouts"][0]["read_share"] is None


def test_ctrl_c_reports_progress_and_resume(capsys):
    engine = VLLM()

    def interrupt(*_):
        raise KeyboardInterrupt

    with serving(engine) as url, pytest.MonkeyPatch.context() as patch:
        arguments = ["replay", str(STABLE), "--server", url, "--dialect", "openai-chat", "-o", "c.jsonl"]
        assert main([*arguments, "--turns", "3"]) == 0
        patch.setattr("lore_plugins.replay.server.Server.send", interrupt)
        capsys.readouterr()
        assert main([*arguments, "--resume", "--json"]) == 130
        found = json.loads(capsys.readouterr().out)

    assert found["interrupted"]
    assert found["layouts"][0]["requests"] == 3
    assert len(lines("c.jsonl")) == 3


def test_capture_of_another_replay_is_not_resumed(capsys):
    with serving(VLLM()) as url:
        assert main(["replay", str(STABLE), "--server", url, "--dialect", "openai-chat", "-o", "c.jsonl"]) == 0
        before = Path("c.jsonl").read_bytes()
        again = ["--server", url, "--dialect", "openai-chat", "-o", "c.jsonl"]
        assert main(["replay", str(STABLE), *again]) == 2
        assert "c.jsonl exists" in capsys.readouterr().err
        assert main(["replay", str(CLOCK), *again, "--resume"]) == 2
        assert "is of another replay: request 1 differs" in capsys.readouterr().err
        Path("d.jsonl").write_bytes(STABLE.read_bytes())
        assert main(["replay", str(CLOCK), "--server", url, "-o", "d.jsonl", "--force"]) == 2
        assert "was not written by lore replay" in capsys.readouterr().err

    assert Path("c.jsonl").read_bytes() == before
    assert Path("d.jsonl").read_bytes() == STABLE.read_bytes()


def test_layouts_are_compared_and_the_best_named(capsys):
    engine = VLLM()
    with serving(engine) as url:
        layouts = "lore:openai-chat,user:openai-chat,persist:openai-chat"
        found = replayed(capsys, KNOWLEDGE, "--server", url, "--layouts", layouts, "-o", "k.jsonl")

    first, same, persist = found["layouts"]
    assert same["same_as"] == "lore:openai-chat"
    assert same["capture"] == ""
    assert found["reads_most"] == "persist:openai-chat"
    assert persist["read_share"] > first["read_share"]
    assert {body.get("cache_salt") for body in engine.asked} == {
        engine.asked[0]["cache_salt"],
        engine.asked[-1]["cache_salt"],
    }
    assert len({body["cache_salt"] for body in engine.asked}) == 2
    for layout in (first, persist):
        assert layout["simulated"]["turns"][0]["billed"]["read_tokens"] == 0


def test_lore_layout_adds_breakpoints(capsys):
    with serving(Anthropic()) as url:
        assert main(["replay", str(CLOCK), "--server", url, "--layouts", "lore,recorded", "-o", "k.jsonl"]) == 0
        said = capsys.readouterr().out

    assert "lore reads most: " in said
    assert "of its prompt tokens; recorded " in said
    assert all(line.count("[replay ") >= 1 for line in Path("k.lore.jsonl").read_text().splitlines())


def test_session_log_has_no_recorded_layout(capsys):
    with serving(VLLM()) as url:
        assert main(["replay", str(KNOWLEDGE), "--server", url, "--layouts", "recorded,lore"]) == 2
        assert "is a session log without recorded requests" in capsys.readouterr().err
        assert main(["replay", str(STABLE), "--server", url, "--layouts", "best"]) == 2
        assert "unknown layout 'best'" in capsys.readouterr().err


def test_transcript_replay_names_what_is_missing(capsys):
    transcript = FIXTURES / "claude-code" / "compaction.jsonl"
    with serving(VLLM()) as url:
        found = replayed(capsys, transcript, "--server", url, "--dialect", "openai-chat", "-o", "c.jsonl")

    assert found["layouts"][0]["requests"] == 6
    assert any("system prompt" in note for note in found["notes"])


class Finer(VLLM):
    """An engine with two tokens for each of the others' tokens."""

    def tokens(self, body):
        return [f"{token} {half}" for token in super().tokens(body) for half in "ab"]


@pytest.mark.parametrize(("path", "layouts"), [(KNOWLEDGE, "system,persist"), (CLOCK, "recorded")])
def test_replaced_text_keeps_earlier_token_counts(path, layouts, capsys):
    """A replaced end removed a measured position, and the estimate of the text before it fell by half."""
    with serving(Finer()) as url:
        found = replayed(capsys, path, "--server", url, "--dialect", "openai-chat", "--layouts", layouts)
    for layout in found["layouts"]:
        turns = layout["simulated"]["turns"][1:]
        reads = [(turn["predicted"]["read_tokens"], turn["billed"]["read_tokens"]) for turn in turns]
        assert len(reads) == 3
        assert all(abs(predicted - read) <= 0.1 * read for predicted, read in reads), reads
        assert layout["tail"] != "persist" or all(predicted == read for predicted, read in reads)
