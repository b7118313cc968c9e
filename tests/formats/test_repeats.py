"""What a request repeats of an earlier one is passed over, and nothing of what is read changes by that.

Law: read one after the other, records give what each of them gives alone, whatever came before.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lore.formats.base import Read
from lore.formats.captures import repeats
from lore.formats.captures.bodies import Bodies
from lore.formats.captures.recorders import Har, ProxyLines
from lore.model import jsonslice
from lore.model.jsonslice import Sliced
from lore.model.turn import Exchange, Memo
from lore.prompt.dialects import DIALECTS
from lore.testing import everything

URL = "https://api.anthropic.com/v1/messages"
TEXTS = (
    "plain " * 120,
    'quotes " and \\ ' * 60,
    "\u65e5\u672c\u8a9e\U0001f600" * 40,
    "tab\t\u2028\u00e9" * 90,
    "short",
)


def message(number: int, text: str) -> dict:
    return {"role": "user" if number % 2 == 0 else "assistant", "content": [{"type": "text", "text": text}]}


def body(*texts: str, system: str = "Be brief.", **more) -> dict:
    messages = [message(number, text) for number, text in enumerate(texts)]
    return {"model": "claude-x", "max_tokens": 9, "system": system, "messages": messages, **more}


def as_body(text: str) -> str:
    return text


def as_record(text: str) -> str:
    return f'{{"ts": 1780000000, "request": {text}, "response": null}}'


def as_text(text: str) -> str:
    return f'{{"ts": 1780000000, "request": {json.dumps(text, ensure_ascii=False)}, "response": null}}'


def as_ascii(text: str) -> str:
    return f'{{"request": {json.dumps(text)}}}'


def as_proxied(text: str) -> str:
    return f'{{"request": {{"method": "POST", "url": "{URL}", "body": {text}}}, "response": {{"status": 200}}}}'


def as_entry(text: str) -> str:
    sent = f'{{"method": "POST", "url": "{URL}", "postData": {{"text": {json.dumps(text)}}}}}'
    return f'{{"startedDateTime": "2026-03-01T10:00:00Z", "request": {sent}, "response": {{}}}}'


def lines(texts: list[str]) -> bytes:
    return b"".join(text.encode("utf-8", "surrogatepass") + b"\n" for text in texts)


def entries(texts: list[str]) -> bytes:
    return b'{"log": {"entries": [' + b",".join(text.encode("utf-8", "surrogatepass") for text in texts) + b"]}}"


@dataclass(frozen=True)
class Kept:
    """A way to keep bodies: how each is written, how all of them are, and who reads them."""

    record: object
    file: object
    reader: type

    def read(self, texts: list[str]) -> list[object]:
        return [seen(read.value) for read in self.reads(texts)]

    def reads(self, texts: list[str]) -> list[Read]:
        return everything(self.reader(), self.file([self.record(text) for text in texts]))


WAYS = {
    "bodies": Kept(as_body, lines, Bodies),
    "records": Kept(as_record, lines, Bodies),
    "text": Kept(as_text, lines, Bodies),
    "ascii": Kept(as_ascii, lines, Bodies),
    "proxy": Kept(as_proxied, lines, ProxyLines),
    "har": Kept(as_entry, entries, Har),
}


def seen(value: object) -> object:
    """All that is read of a request: its bytes, and the prompt that they are sliced into."""
    if not isinstance(value, Exchange):
        return value.code
    prompt = DIALECTS["anthropic"].parse(value.body, value.fidelity, Memo())
    segments = [(segment.path, segment.data, segment.kind, segment.breakpoint) for segment in prompt]
    return bytes(value.body), value.fidelity, segments, prompt.params, prompt.model


def alone(way: Kept, texts: list[str]) -> list[object]:
    """Read records without a memory of those before."""
    with mock.patch.object(repeats.Repeats, "short", return_value=None):
        return way.read(texts)


@st.composite
def conversations(draw: st.DrawFn) -> list[str]:
    """Bodies of one conversation as text, now and then cut, edited, spelled otherwise or damaged."""
    texts, found = [draw(st.sampled_from(TEXTS))], list[str]()
    for turn in range(draw(st.integers(2, 7))):
        made = body(*texts, system=draw(st.sampled_from(["Be brief.", "It is noon."])))
        if draw(st.booleans()):
            made["messages"][-1]["content"][0]["cache_control"] = {"type": "ephemeral"}
        spaced = draw(st.sampled_from([None, (",", ":")]))
        text = json.dumps(made, ensure_ascii=draw(st.booleans()), separators=spaced)
        found.append(draw(st.sampled_from(DAMAGES))(text, turn))
        texts += [f"{turn} {draw(st.sampled_from(TEXTS))}", f"and {draw(st.sampled_from(TEXTS))}"]
        if draw(st.integers(0, 5)) == 0:
            texts[draw(st.integers(0, len(texts) - 1))] += "!"
        if draw(st.integers(0, 8)) == 0:
            del texts[1]
    return found


DAMAGES = (
    *[lambda text, turn: text] * 6,
    lambda text, turn: text[:-2],
    lambda text, turn: text[:-1] + ', "messages": [{"role": "user", "content": "again"}]}',
    lambda text, turn: text.replace('"model"', '"mod\\u0065l"'),
    lambda text, turn: text.replace("plain", "\\ud83d", 1),
    lambda text, turn: text[:-1] + f', "metadata": {{"messages": [{turn}]}}}}',
    lambda text, turn: text.replace("]}", "]]}", 1),
    lambda text, turn: f" {text} ",
)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@given(texts=conversations())
def test_records_that_follow_one_another_are_read_as_each_is_alone(way, texts):
    assert way.read(texts) == alone(way, texts)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("names", [("main",), ("main", "aside")], ids=["one", "alternating"])
def test_messages_that_were_sent_before_are_not_sliced_again(way, names, monkeypatch):
    turns = [
        json.dumps(body(*(f"{name} {number} {TEXTS[number % 4]}" for number in range(2 * turn + 1))))
        for turn in range(30)
        for name in names
    ]
    assert way.read(turns) == alone(way, turns)
    counting = [Sizes(jsonslice, "_TABLE", monkeypatch), Sizes(jsonslice, "_ARRAY", monkeypatch)]
    slice_all(way, turns)
    in_turn = sum(one.bytes for one in counting)
    with mock.patch.object(repeats.Repeats, "short", return_value=None):
        slice_all(way, turns)
    apart = sum(one.bytes for one in counting) - in_turn
    assert in_turn < apart / 4


def slice_all(way: Kept, texts: list[str]) -> None:
    """Read records, and slice the messages of each as its prompt is made of them."""
    for read in way.reads(texts):
        jsonslice.array((jsonslice.table(read.value.body) or {})["messages"])


class Sizes:
    """A decoder of a module that counts the bytes it is given."""

    def __init__(self, module, name, monkeypatch):
        self._wrapped, self.bytes = getattr(module, name), 0
        monkeypatch.setattr(module, name, self)

    def decode(self, data):
        self.bytes += len(data)
        return self._wrapped.decode(data)


def test_a_body_that_goes_on_shares_the_messages_of_the_one_before():
    texts = [json.dumps(body(*TEXTS[:4], "x", "y", *more)) for more in ((), ("z", "w"))]
    one, two = (read.value.body for read in everything(Bodies(), lines(texts)))
    assert isinstance(two, Sliced)
    before, after = (jsonslice.array(made.members["messages"]) for made in (one, two))
    assert len(before) == 6
    assert len(after) == 8
    assert all(left is right for left, right in zip(before, after, strict=False))


# A text that is JSON only without what it repeats was no JSON: an object held elements of an array.
def test_a_record_is_not_read_where_only_what_is_left_of_it_is_json():
    one, two = (json.dumps(body(*TEXTS[:4], *TEXTS[:count])) for count in (2, 4))
    broken = two.replace('"messages": [', '"messages": {"x": [', 1)
    assert WAYS["records"].read([one, broken])[1:] == alone(WAYS["records"], [broken])


# Of two members with one name the last holds, also where they are the same without what one of them repeats.
def test_of_messages_that_are_written_twice_the_last_hold():
    first = body(*TEXTS[:4], *TEXTS[:4])
    short = json.dumps([first["messages"][0], first["messages"][-1]])
    grown = json.dumps({**first, "messages": [*first["messages"], message(8, "z")]})
    twice = f'{grown[:-1]}, "messages": {short}}}'
    for name in ("bodies", "records", "text", "proxy", "har"):
        way = WAYS[name]
        assert way.read([json.dumps(first), twice]) == alone(way, [json.dumps(first), twice])


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(repeats, "ROOM", 30_000)
    reader = Bodies()
    texts = [json.dumps(body(f"{who} {'x' * 6_000}", *("y" * 900,) * 4)) for who in range(12)]
    for text in texts:
        reader.feed(text.encode() + b"\n")
    kept = reader._repeats._known
    assert 0 < sum(2 * len(known.body) + len(known.text) for known in kept) <= 30_000
