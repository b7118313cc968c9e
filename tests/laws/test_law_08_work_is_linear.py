"""Law 8. Work is linear: equal segments are shared and compared by identity, each line is parsed once, each distinct
segment tokenised at most once and put into canonical form only if it differs. Work is counted, never timed."""

from collections import Counter as Tally
from collections import deque

import pytest

from helpers.recognising import recognise
from helpers.strategies import write
from lore.commands.diff_prefix import TurnComparison, diff_session
from lore.commands.main import main
from lore.formats.captures import bodies
from lore.formats.claude import reader as claude_code
from lore.formats.claude import records as claude_records
from lore.model import events, lenient
from lore.model.jsonslice import is_json
from lore.model.turn import Memo, Segment
from lore.model.vector import common_prefix
from lore.prefix import overlap
from lore.prompt import base
from lore.prompt.dialects import DIALECTS, anthropic, bedrock, gemini, messages, openai
from lore.recording.opening import Options
from lore.tokens import o200k

SIZES = (40, 80)


def _lore(turns: int) -> list[bytes]:
    header = {"kind": "session_started", "session_id": "s", "model": "claude-x", "system": "You help."}
    lines = [write(header), write({"kind": "layer", "name": "clock", "when": "every_turn", "text": "tick"})]
    for n in range(turns):
        question = {"type": "user_message", "uuid": f"u{n}", "text": f"question {n}"}
        call = {"type": "tool_call", "uuid": f"t{n}", "call_id": f"c{n}", "name": "read", "input": {"n": n}}
        lines.append(write({"kind": "append", "item": question}))
        lines.append(write({"kind": "turn_started", "turn": n + 1, "context": {"current_time": f"{n}"}}))
        lines.append(write({"kind": "append", "item": call}))
        lines.append(
            write({"kind": "patch_tool_call", "call_id": f"c{n}", "status": "completed", "output": f"got {n}"})
        )
        lines.append(write({"kind": "turn_completed", "turn": n + 1}))
    return lines


def _claude(turns: int) -> list[bytes]:
    lines = []
    for n in range(turns):
        session_fields = {"sessionId": "s", "isSidechain": False}
        parent = f"a{n - 1}" if n else None
        question = {"role": "user", "content": f"question {n}"}
        lines.append(
            write({"type": "user", "uuid": f"u{n}", "parentUuid": parent, **session_fields, "message": question})
        )
        answer = {"id": f"m{n}", "model": "claude-x", "content": [{"type": "text", "text": f"answer {n}"}]}
        lines.append(
            write({"type": "assistant", "uuid": f"a{n}", "parentUuid": f"u{n}", **session_fields, "message": answer})
        )
    return lines


_SHAPES = {
    "anthropic": ({"model": "claude-x", "system": "You help."}, "messages", "content", {"type": "text"}),
    "openai-chat": ({"model": "gpt-5"}, "messages", "content", {"type": "text"}),
    "openai-responses": ({"model": "gpt-5", "instructions": "You help."}, "input", "content", {"type": "input_text"}),
    "gemini": ({"model": "gemini-3"}, "contents", "parts", {}),
    "bedrock": ({"modelId": "claude-x", "system": [{"text": "You help."}]}, "messages", "content", {}),
}


def _bodies(dialect: str):
    head, key, parts, block = _SHAPES[dialect]

    def make(turns: int) -> list[bytes]:
        messages, lines = [], []
        for n in range(turns):
            messages.append({"role": "user", parts: [{**block, "text": f"question {n}"}]})
            lines.append(write({**head, key: messages}))
            messages.append({"role": "assistant", parts: [{**block, "text": f"answer {n}"}]})
        return lines

    return make


MAKERS = {"lore": _lore, "claude-code": _claude, **{dialect: _bodies(dialect) for dialect in _SHAPES}}


@pytest.fixture
def judge(desk):
    """Write lines to a file and judge it."""

    def run(lines: list[bytes]):
        (desk / "log.jsonl").write_bytes(b"\n".join(lines) + b"\n")
        assert main(["check", "log.jsonl", "--json"]) == 0

    return run


class _Counting:
    """A decoder that counts its inputs."""

    def __init__(self, decoder) -> None:
        self._decoder = decoder
        self.seen: Tally[bytes] = Tally()

    def decode(self, data: bytes):
        self.seen[bytes(data)] += 1
        return self._decoder.decode(data)


def test_each_lore_line_is_decoded_once(judge, monkeypatch):
    counting = _Counting(lenient.DECODERS[events.Event])
    monkeypatch.setitem(lenient.DECODERS, events.Event, counting)
    lines = _lore(30)
    judge(lines)
    assert counting.seen == Tally(lines)


def _counted_claude_decoders(monkeypatch) -> list[_Counting]:
    names = "_RECORD", "_BLOCK_RECORD"  # of messages that are texts, and of those that are blocks
    decoders = [_Counting(getattr(claude_records, name)) for name in names]
    for name, decoder in zip(names, decoders, strict=True):
        monkeypatch.setattr(claude_records, name, decoder)
    return decoders


def test_each_claude_code_line_is_decoded_once(judge, monkeypatch):
    decoders = _counted_claude_decoders(monkeypatch)
    lines = _claude(30)
    judge(lines)
    assert sum((decoder.seen for decoder in decoders), Tally()) == Tally([lines[0], *lines])


@pytest.mark.parametrize("dialect", list(DIALECTS))
def test_body_is_sliced_a_fixed_number_of_times(judge, monkeypatch, dialect):
    sliced_sizes: Tally[int] = Tally()
    for module in (bodies, anthropic, openai, gemini, bedrock, messages):
        original = module.raw_members
        monkeypatch.setattr(module, "raw_members", lambda raw, f=original: sliced_sizes.update([len(raw)]) or f(raw))
    lines = MAKERS[dialect](90)
    judge(lines)
    sizes_after_head = [len(line) for line in lines[-50:]]
    assert max(sliced_sizes[size] for size in sizes_after_head) <= 3


@pytest.mark.parametrize("dialect", list(DIALECTS))
def test_each_distinct_message_is_parsed_once(judge, monkeypatch, dialect):
    built: Tally[bytes] = Tally()
    original = Memo.get

    def count_and_call(self, index, raw, build):
        return original(self, index, raw, lambda: built.update([bytes(raw)]) or build())

    monkeypatch.setattr(Memo, "get", count_and_call)
    judge(MAKERS[dialect](60))
    assert set(built.values()) == {1}


def _equalities(judge, monkeypatch, lines) -> int:
    count = [0]
    original = Segment.__eq__

    def count_and_call(self, other):
        count[0] += 1
        return original(self, other)

    with monkeypatch.context() as patch:
        patch.setattr(Segment, "__eq__", count_and_call)
        judge(lines)
    return count[0]


@pytest.mark.parametrize("name", list(MAKERS))
def test_segments_that_are_shared_are_not_compared(judge, monkeypatch, name):
    small, large = (_equalities(judge, monkeypatch, MAKERS[name](size)) for size in SIZES)
    assert large <= 2 * small + 4
    assert large <= 4 * SIZES[1]


def test_long_histories_are_compared_by_the_chunk(judge, monkeypatch):
    assert _equalities(judge, monkeypatch, _lore(400)) <= 4 * 400


@pytest.mark.parametrize("dialect", list(DIALECTS))
def test_each_entry_is_rendered_once(judge, monkeypatch, dialect):
    rendered: Tally[str] = Tally()
    original = base.Rendered

    def count_and_call(segments, *args):
        rendered.update(segment.data.decode() for segment in segments if segment.kind != "envelope")
        return original(segments, *args)

    monkeypatch.setattr(anthropic, "Rendered", count_and_call)
    monkeypatch.setattr(messages, "Rendered", count_and_call)
    lines = _lore(60)
    lines[0] = lines[0].replace(b'"session_id"', f'"dialect":"{dialect}","session_id"'.encode())
    judge(lines)
    rendered_questions = {text: times for text, times in rendered.items() if "question" in text}
    assert set(rendered_questions.values()) == {1}


def _canonicalised(judge, monkeypatch, lines) -> int:
    count = [0]
    original = overlap.canonical_of
    monkeypatch.setattr(
        overlap, "canonical_of", lambda segment: count.__setitem__(0, count[0] + 1) or original(segment)
    )
    judge(lines)
    return count[0]


@pytest.mark.parametrize("name", list(MAKERS))
def test_check_of_a_growing_session_canonicalises_nothing(judge, monkeypatch, name):
    assert _canonicalised(judge, monkeypatch, MAKERS[name](40)) == 0


def test_a_check_canonicalises_only_where_bytes_differ(judge, monkeypatch):
    lines = _bodies("anthropic")(40)
    lines[20] = lines[20].replace(b'"question 3"', b'"\\u0071uestion 3"')
    assert _canonicalised(judge, monkeypatch, lines) <= 8


class _Weigher:
    """A tokenizer that counts how often it is asked about each text."""

    name = "counted"

    def __init__(self) -> None:
        self.asked: Tally[bytes] = Tally()

    def count(self, data: bytes) -> int:
        self.asked[data] += 1
        return len(data)

    def common(self, first: bytes, second: bytes) -> int:
        return common_prefix(first, second)


@pytest.mark.parametrize("name", list(MAKERS))
def test_each_segment_of_growing_session_is_measured_once(desk, name):
    (desk / "log.jsonl").write_bytes(b"\n".join(MAKERS[name](40)) + b"\n")
    weigher = _Weigher()
    assert list(diff_session("log.jsonl", TurnComparison(Options(counter=weigher))))
    measured_questions = {text: times for text, times in weigher.asked.items() if b"question" in text}
    assert len(measured_questions) == 40
    assert set(measured_questions.values()) == {1}


class _Encoding:
    def __init__(self) -> None:
        self.encoded: Tally[str] = Tally()

    def encode_ordinary(self, text: str) -> list[int]:
        self.encoded[text] += 1
        return list(text.encode())


def test_each_distinct_segment_is_tokenised_once(desk, monkeypatch):
    encoding = _Encoding()
    monkeypatch.setattr(o200k, "load_encoding", lambda: encoding)
    lines = _lore(40)
    (desk / "log.jsonl").write_bytes(b"\n".join([*lines, *lines[2:3]]) + b"\n")
    assert list(diff_session("log.jsonl", TurnComparison(Options(counter=o200k.Counter()))))
    assert set(encoding.encoded.values()) == {1}


def test_only_the_chunk_around_a_cut_is_retokenised(monkeypatch):
    encoding = _Encoding()
    monkeypatch.setattr(o200k, "load_encoding", lambda: encoding)
    words = " ".join(f"word{n}" for n in range(5000)).encode()
    counter = o200k.Counter()
    counter.count(words)
    counter.count(words[:-4] + b"else")
    before = counter.tokenised
    counter.count_common(words, words[:-4] + b"else")
    assert counter.tokenised - before == 2


def test_each_line_of_a_recording_is_decoded_once(recording, monkeypatch):
    data = recording.read_bytes()
    reader = recognise(data[: 1 << 18])
    if reader is not claude_code.ClaudeCode:
        pytest.skip("counted for event logs")
    decoders = _counted_claude_decoders(monkeypatch)
    deque(reader().read([data]), maxlen=0)
    lines = [line for line in data.split(b"\n") if line.strip()]
    again = sum(3 for line in lines if not is_json(line))  # the records of a line that holds several, three here
    decoded = sum(sum(decoder.seen.values()) for decoder in decoders)
    assert len(lines) <= decoded <= 1 + 1.1 * len(lines) + again  # blocks of unknown shape are decoded again
