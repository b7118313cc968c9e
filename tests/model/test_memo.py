"""What a memo of messages keeps."""

from __future__ import annotations

from lore.model.turn import Memo, Segment


def built(memo: Memo, texts: list[bytes]) -> int:
    """Count the messages at one place that had to be sliced."""
    found: list[bytes] = []

    def segments(text: bytes) -> tuple[Segment, ...]:
        found.append(text)
        return (Segment("messages", "messages[0]", text),)

    for text in texts:
        assert memo.get(0, text, lambda text=text: segments(text))[0].data == text
    return len(found)


def test_messages_of_conversations_that_alternate_are_sliced_once():
    assert built(Memo(), [b"a", b"b", b"c", b"d"] * 3) == 4


# Four prompts of five megabytes were held for their messages, and as much again of what was sliced of them.
def test_of_long_messages_at_one_place_the_latest_alone_is_kept():
    long, other = (letter * (Memo.LONG + 1) for letter in (b"x", b"y"))
    assert built(Memo(), [long, long, long]) == 1
    assert built(Memo(), [long, other, long]) == 3
