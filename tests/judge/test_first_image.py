"""LORE118 of the first image of a conversation, which Anthropic documents to change all messages."""

from helpers.each import each
from judge.captures import asks, break_codes, call, judged, text, usage
from lore.model.differences import ImageChanged

ONE = text("user", "Find the bug. " * 900)
TWO = (ONE, text("assistant", "I look into it."), text("user", "Go on. " * 60))
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo=" * 400}}
SHOWN = {"role": "user", "content": [IMAGE, {"type": "text", "text": "See this."}]}


@each("said, then, read, codes", [
    ((ONE,), (*TWO[:2], SHOWN), 7000, ["LORE118"]),
    ((ONE,), TWO, 7000, ["LORE301"]),
    ((ONE,), (*TWO[:2], SHOWN), 8900, ["LORE301"]),  # a part of the messages was read
    ((ONE,), (*TWO[:2], SHOWN), 10_000, []),
    ((SHOWN, TWO[1], ONE), (SHOWN, TWO[1], ONE, TWO[1], SHOWN), 7000, ["LORE301"]),  # it had an image before
])  # fmt: skip
def test_first_image_is_a_possible_cause_of_a_read_of_the_head(tmp_path, said, then, read, codes):
    calls = call(0, asks(*said), usage(0, 10_000)), call(10, asks(*then), usage(read, 10_300 - read))
    found, _ = judged(tmp_path, *calls)
    assert break_codes(found[1]) == codes
    if codes == ["LORE118"]:
        (cause,) = found[1].causes
        assert (cause.kind, cause.strength) == ("unattributable", "weak")
        assert cause.evidence == ImageChanged("messages[2].content[0]", "added")
