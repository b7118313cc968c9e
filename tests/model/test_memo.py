"""Messages that are parsed once."""

from __future__ import annotations

from lore.model.turn import Memo, Segment


def built(memo: Memo, texts: list[bytes]) -> int:
    """Return how many messages at one position had to be sliced."""
    found: list[bytes] = []

    def segments(text: bytes) -> tuple[Segment, ...]:
        found.append(text)
        return (Segment("messages", "messages[0]", text),)

    for text in texts:
        assert memo.get(0, text, lambda text=text: segments(text))[0].data == text
    return len(found)


def test_messages_of_alternating_conversations_are_sliced_once():
    assert built(Memo(), [b"a", b"b", b"c", b"d"] * 3) == 4


# Holding four messages of five megabytes, and their segments, took too much memory.
def test_memo_keeps_only_latest_long_message():
    long, other = (letter * (Memo.LONG + 1) for letter in (b"x", b"y"))
    assert built(Memo(), [long, long, long]) == 1
    assert built(Memo(), [long, other, long]) == 3
