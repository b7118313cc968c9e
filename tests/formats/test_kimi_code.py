"""Kimi Code's logs: steps and their usage, the system prompt and tools, compactions, undo."""

from formats.kimi import MODEL, Wire, plain, text, usage
from formats.recorded import ends
from helpers.each import each
from helpers.recognising import recognise
from lore.formats.agents.kimi import KimiCode
from lore.recording.opening import Options
from lore.testing import ReaderContract


def busy() -> Wire:
    """Return a log with reminders, an undo, compactions, a failed call, other tools and another effort."""
    log = plain().message("<system-reminder>", "injection").message("no").step(text("well"), usage=usage(300, 9_984))
    log.record("context.undo", count=1).record("turn.cancel", turnId=3).message("go on")
    log.step(text("look"), usage=usage(400, 10_112), calls=("c-2", "c-3")).result("c-2", "no such file", isError=True)
    log.result("c-3", [text("a"), {"type": "image_url", "imageUrl": {"url": "data:image/png;base64,QQ=="}}], note="n")
    log.record("micro_compaction.apply", cutoff=2).record("permission.set_mode", mode="manual")
    log.record("permission.set_mode", mode="yolo").record("llm.tools_snapshot", hash="h2", tools=[]).request("h2")
    log.record("full_compaction.begin", source="manual").record("usage.record", model=MODEL, usage=usage(900, 9_000))
    compaction = {"summary": "So far.", "compactedCount": 7, "tokensBefore": 11_000, "tokensAfter": 900}
    log.record("context.apply_compaction", **compaction, keptUserMessageCount=1).record("full_compaction.complete")
    return log.step(text("on"), usage=usage(2_000, 0)).record("context.clear").message("anew").step(text("hi"))


class TestContract(ReaderContract):
    reader = KimiCode
    samples = (plain().data(), busy().data(), busy().data()[:-1], busy().data().replace(b"\n", b"\r\n"))


def test_log_is_recognised_by_its_header():
    assert recognise(plain().data()) is KimiCode
    assert recognise(plain().data().partition(b"\n")[2]) is KimiCode  # without its beginning
    note = b'{"type":"turn.prompt","input":[],"time":1782295303000}\n'
    assert recognise(note + plain().data().partition(b"\n")[2]) is KimiCode
    assert recognise(b'{"type":"metadata","protocol_version":"1.10"}\n{"timestamp":1,"message":{}}\n') is not KimiCode


def test_step_and_repeated_usage_are_one_request():
    assert ends(plain()) == [(10_000, 0, 10), (216, 9_984, 10)]
    assert not plain().folded().problems
    late = Wire().message("hi").step(text("a")).record("usage.record", model=MODEL, usage=usage(9, 0))
    assert late.folded().usage.uncached_tokens == 9


def test_prompt_with_system_and_tools_is_structural(tmp_path):
    (tmp_path / "wire.jsonl").write_bytes(plain().data())
    turns = list(Options().open(str(tmp_path / "wire.jsonl")).turns())
    assert [turn.fidelity for turn in turns] == ["structural", "reconstructed"]  # such prompts cannot hold thoughts
    assert {segment.section for segment in turns[1].prompt} >= {"tools", "system", "messages"}
    old = Wire("1.0").message("hi").step(text("a"), usage=usage(9, 0))
    (tmp_path / "old.jsonl").write_bytes(old.data())
    assert [turn.fidelity for turn in Options().open(str(tmp_path / "old.jsonl")).turns()] == ["reconstructed"]


HOSTILE = (
    {"type": "context.append_message"},
    {"type": "context.append_message", "message": {"role": "user", "content": 5}},
    {"type": "context.append_loop_event", "event": 5},
    {"type": "context.append_loop_event", "event": {"type": "of the future"}},
    {"type": "context.apply_compaction", "compactedCount": "x"},
    {"type": "usage.record", "usage": {"inputOther": "1"}},
    {"type": "of.the.future"},
    {"type": 7},
)


@each(HOSTILE)
def test_malformed_line_is_kept_at_its_place(line):
    log = plain()
    log.lines.insert(2, line)
    session = log.folded()
    assert [end for end in ends(log) if end] == [(10_000, 0, 10), (216, 9_984, 10)]
    assert [problem.line for problem in session.problems] == [3], session.problems
