"""Law 1. Raw bytes are kept: a segment read from a body is a slice of it; what can be sliced is not rewritten."""

from __future__ import annotations

import pytest
from hypothesis import given

from helpers.strategies import AWKWARD, Style, bodies, body_files, events_of, lore_logs, read_all, styles, texts, write
from lore.fold.step import step
from lore.formats.captures.bodies import Bodies
from lore.formats.registry import recognise
from lore.model.events import OpaqueEvent
from lore.model.jsonslice import member_ranges
from lore.model.state import FoldedSession
from lore.model.turn import Exchange, Memo
from lore.prompt.assemble import Assembler
from lore.prompt.dialects import DIALECTS, dialect_of


def _pieces(segment):
    """What must be a slice: all of a segment; of an envelope, or of what a breakpoint was cut out of, each member."""
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
def test_every_segment_of_a_body_is_a_slice_of_it(body, style):
    _assert_sliced(write(body, style))


@given(bodies(), styles)
def test_a_body_parsed_and_written_keeps_every_segment(body, style):
    raw = write(body, style)
    dialect = dialect_of(raw)
    parsed = dialect.parse(raw, "wire", Memo())
    assert list(dialect.parse(dialect.write(parsed), "wire", Memo())) == list(parsed)


@given(body_files())
def test_a_body_read_from_a_file_is_a_slice_of_the_file(data):
    for read in read_all(Bodies(), data):
        if isinstance(read.value, Exchange) and b'"request"' not in data:
            assert read.value.body in data


def test_blank_lines_inside_a_body_are_kept():
    body = b'{"model": "claude-x",\n\n"messages": [\n \n]}'
    (read,) = read_all(Bodies(), body + b"\n")
    assert read.value.body == body


@given(lore_logs())
def test_a_record_that_nothing_models_is_kept_to_the_byte(log):
    for event in events_of(log.data):
        if isinstance(event, OpaqueEvent):
            assert bytes(event.record) in log.data


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
@given(text=texts, style=styles)
def test_text_is_assembled_as_the_log_spells_it(dialect, text, style):
    spelled = write(text if text.strip() else "x", style)  # what is blank is not said
    item = b'{"type":"user_message","uuid":"u","text":' + spelled + b"}"
    log = b'{"kind":"session_started","session_id":"s"}\n{"kind":"append","item":' + item + b"}\n"
    state = FoldedSession()
    for event in events_of(log):
        state = step(state, event).state
    prompt = Assembler(dialect).assemble(state, state.main()).prompt
    assert spelled in dialect.write(prompt)


@pytest.mark.parametrize("spelled", [b"1.0", b"1e16", b"3E-05", b"18446744073709551616", b"-0.0", b'"\\ud83d"', b"{ }"])
def test_a_calls_input_is_assembled_as_the_log_spells_it(spelled):
    call = b'{"type":"tool_call","uuid":"t","call_id":"c","name":"n","input":{"v" :' + spelled + b"}}"
    log = b'{"kind":"session_started","session_id":"s"}\n{"kind":"append","item":' + call + b"}\n"
    state = FoldedSession()
    for event in events_of(log):
        state = step(state, event).state
    dialect = DIALECTS["anthropic"]
    assert b'"input":{"v" :' + spelled + b"}" in dialect.write(Assembler(dialect).assemble(state, state.main()).prompt)


def test_a_media_type_with_an_escaped_slash_is_written_as_it_means():
    source = b'{"type":"base64","media_type":"image\\/png","data":"aGk="}'
    content = b'[{"type":"image","source":' + source + b"}]"
    line = b'{"type":"user","uuid":"u","sessionId":"s","message":{"role":"user","content":' + content + b"}}\n"
    (append,) = [event for event in events_of(line, recognise(line)) if hasattr(event, "item")]
    assert append.item.blocks[0].media_type == "image/png"


@pytest.mark.parametrize("text", AWKWARD)
def test_the_generator_spells_every_awkward_text_so_that_it_reads_back(text):
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
