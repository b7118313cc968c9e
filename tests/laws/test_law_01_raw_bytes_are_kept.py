"""Law 1: raw bytes are kept. A segment of a body is a slice of it, and content is never encoded again."""

import pytest
from hypothesis import given

from helpers.each import each
from helpers.recognising import recognise
from helpers.states import step
from helpers.strategies import AWKWARD, Style, bodies, body_files, events_of, lore_logs, read_all, styles, texts, write
from lore.formats.captures.bodies import Bodies
from lore.model.events import OpaqueEvent
from lore.model.jsonslice import member_ranges
from lore.model.state import FoldedSession
from lore.model.turn import Exchange, Memo
from lore.prompt.assemble import Assembler
from lore.prompt.dialects import DIALECTS, dialect_of


def _pieces(segment):
    """Return what must be a slice: a segment, or each member of an envelope or of a block with a breakpoint."""
    if segment.kind != "envelope" and segment.breakpoint is None:
        return [segment.data]
    data = b"{" + segment.data + b"}" if segment.kind == "envelope" else segment.data
    return [data[member.start : member.end] for member in member_ranges(data) if member.key != "content"]


def _assert_sliced(body: bytes, fidelity: str = "wire") -> None:
    dialect = dialect_of(body)
    assert dialect is not None
    for segment in dialect.parse(body, fidelity, Memo()):
        for piece in _pieces(segment):
            assert piece in body, segment.path


@given(bodies(), styles)
def test_segments_are_slices_of_body(body, style):
    _assert_sliced(write(body, style))


@given(bodies(), styles)
def test_a_body_parsed_and_written_keeps_every_segment(body, style):
    raw = write(body, style)
    dialect = dialect_of(raw)
    parsed = dialect.parse(raw, "wire", Memo())
    assert list(dialect.parse(dialect.write(parsed), "wire", Memo())) == list(parsed)


@given(body_files())
def test_body_is_slice_of_its_file(data):
    for read in read_all(Bodies(), data):
        if isinstance(read.value, Exchange) and b'"request"' not in data:
            assert read.value.body in data


def test_blank_lines_inside_a_body_are_kept():
    body = b'{"model": "claude-x",\n\n"messages": [\n \n]}'
    (read,) = read_all(Bodies(), body + b"\n")
    assert read.value.body == body


@given(lore_logs())
def test_unknown_record_is_kept_verbatim(log):
    for event in events_of(log.data):
        if isinstance(event, OpaqueEvent):
            assert bytes(event.record) in log.data


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
@given(text=texts, style=styles)
def test_text_is_assembled_as_spelled(dialect, text, style):
    spelled = write(text if text.strip() else "x", style)  # blank text is not sent
    item = b'{"type":"user_message","uuid":"u","text":' + spelled + b"}"
    log = b'{"kind":"session_started","session_id":"s"}\n{"kind":"append","item":' + item + b"}\n"
    state = FoldedSession()
    for event in events_of(log):
        state = step(state, event).state
    prompt = Assembler(dialect).assemble(state, state.main()).prompt
    assert spelled in dialect.write(prompt)


@each([b"1.0", b"1e16", b"3E-05", b"18446744073709551616", b"-0.0", b'"\\ud83d"', b"{ }"])
def test_call_input_is_assembled_as_spelled(spelled):
    call = b'{"type":"tool_call","uuid":"t","call_id":"c","name":"n","input":{"v" :' + spelled + b"}}"
    log = b'{"kind":"session_started","session_id":"s"}\n{"kind":"append","item":' + call + b"}\n"
    state = FoldedSession()
    for event in events_of(log):
        state = step(state, event).state
    dialect = DIALECTS["anthropic"]
    assert b'"input":{"v" :' + spelled + b"}" in dialect.write(Assembler(dialect).assemble(state, state.main()).prompt)


def test_escaped_slash_in_media_type_is_decoded():
    source = b'{"type":"base64","media_type":"image\\/png","data":"aGk="}'
    content = b'[{"type":"image","source":' + source + b"}]"
    line = b'{"type":"user","uuid":"u","sessionId":"s","message":{"role":"user","content":' + content + b"}}\n"
    (append,) = [event for event in events_of(line, recognise(line)) if hasattr(event, "item")]
    assert append.item.blocks[0].media_type == "image/png"


@each(AWKWARD)
def test_generated_spellings_decode_to_their_text(text):
    from lore.model.canonical import text_of  # noqa: PLC0415

    for escapes in ("few", "ascii", "all"):
        read = text_of(write(text, Style(escapes=escapes)))
        assert read.encode("utf-16", "surrogatepass") == text.encode("utf-16", "surrogatepass")


def test_segments_of_recorded_bodies_are_slices(recording):
    data = recording.read_bytes()
    reader = recognise(data[: 1 << 18])
    if reader is not Bodies:
        pytest.skip("holds events, not bodies")
    exchanges = [read.value for read in read_all(Bodies(), data) if isinstance(read.value, Exchange)]
    assert exchanges
    for exchange in exchanges[:: max(1, len(exchanges) // 4)]:
        assert exchange.body in data
        _assert_sliced(exchange.body, exchange.fidelity)
