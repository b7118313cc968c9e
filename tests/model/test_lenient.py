"""JSON that msgspec refuses is decoded with the keys of other programs."""

from lore.model.events import Usage
from lore.model.lenient import convert


def test_camel_case_keys_may_hold_digits():
    """Regression: tokens written for five minutes were dropped in silence."""
    assert convert(b'{"write5mTokens": 7}', Usage).write_5m_tokens == 7
