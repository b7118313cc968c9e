"""Blocks of segments, in the shapes of different providers."""

import pytest

from lore.model.canonical import encode
from lore.model.turn import Segment
from lore.prefix.blocks import block_of, has_text_for_image

IMAGE = {"anthropic": {"type": "image", "source": {}}, "bedrock": {"image": {"format": "png"}}}
TEXT = {"anthropic": {"type": "text"}, "bedrock": {}}
RESULT = {
    "anthropic": lambda parts: {"type": "tool_result", "tool_use_id": "c1", "content": parts},
    "bedrock": lambda parts: {"toolResult": {"toolUseId": "c1", "content": parts}},
}


@pytest.mark.parametrize("shape", RESULT)
def test_rewritten_result_shows_beside_removed_image(shape):
    def result(text, *more):
        parts = [{**TEXT[shape], "text": text}, *more]
        return block_of(Segment("messages", "messages[1].content[0]", encode(RESULT[shape](parts))))

    before = result("old", IMAGE[shape])
    assert has_text_for_image(before, result("old"))
    assert not has_text_for_image(before, result("rewritten"))
