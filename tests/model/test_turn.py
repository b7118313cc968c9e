"""Segments, prompts and turns as values, and messages that are parsed once."""

from helpers.each import each
from lore.model.state import Entry
from lore.model.turn import Memo, Prompt, PromptBasis, Segment, Turn
from lore.model.vector import Vector
from model.making import append, parsed, user


def test_segments_are_equal_by_content():
    one = Segment("messages", "messages[0].content[0]", b"x", breakpoint=b"{}")
    assert one == Segment("messages", "messages[7].content[0]", b"x")
    assert hash(one) == hash(Segment("messages", "messages[7].content[0]", b"x"))


def test_position_counts_over_head_messages_and_tail():
    parts = [Segment("system", "s", b"1"), Segment("messages", "m", b"2"), Segment("messages", "t", b"3")]
    prompt = Prompt("anthropic", "wire", head=(parts[0],), messages=Vector([parts[1]]), tail=(parts[2],))
    assert [prompt.segment_at(n) for n in range(4)] == [*parts, None]
    assert (list(prompt), len(prompt), prompt.stable) == (parts, 3, 2)


def entries(*groups):
    return Vector([Entry(append(user(f"u{place}")).item, 1, group) for place, group in enumerate(groups)])


def turn(timeline):
    prompt = Prompt("anthropic", "reconstructed")
    return Turn("main", 1, lambda: (prompt, Vector()), basis=PromptBasis(timeline, "anthropic"))


@each("left, right, extends", [
    (entries(1, 2), entries(1, 2, 3), True),
    (entries(1, 2), entries(1, 2), True),
    (entries(), entries(1), True),
    (entries(1, 2), entries(1, 2, 2), False),  # the last response has one more item
    (entries(1, 2, 3), entries(1, 2), False),
    (entries(1, 2), entries(1, 3, 4), False),
])  # fmt: skip
def test_turn_extends_another_that_ends_with_whole_response(left, right, extends):
    assert turn(right).extends(turn(left)) is extends


def count_sliced(texts: list[bytes]) -> int:
    """Return how many of these messages at one position had to be sliced."""
    memo, sliced = Memo(), 0

    def segments(text: bytes) -> tuple[Segment, ...]:
        nonlocal sliced
        sliced += 1
        return (Segment("messages", "messages[0]", text),)

    for text in texts:
        assert memo.get(0, text, lambda text=text: segments(text))[0].data == text
    return sliced


def test_messages_of_alternating_conversations_are_sliced_once():
    assert count_sliced([b"a", b"b", b"c", b"d"] * 3) == 4


# Four messages of five megabytes, with their segments, took too much memory.
def test_memo_keeps_only_latest_long_message():
    long, other = (letter * (Memo.LONG + 1) for letter in (b"x", b"y"))
    assert count_sliced([long, long, long]) == 1
    assert count_sliced([long, other, long]) == 3


def test_equal_heads_of_requests_are_one_object():
    memo = Memo()
    bodies = [
        {"model": "claude-opus-5", "system": "Be brief.", "messages": [{"role": "user", "content": text}]}
        for text in ("a", "b")
    ]
    one, other = (parsed(body, memo=memo) for body in bodies)
    assert one.head is other.head
    assert parsed({**bodies[0], "system": "Be long."}, memo=memo).head[0].data == b'"Be long."'
