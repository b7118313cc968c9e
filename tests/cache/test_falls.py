"""Signals after which most reads fell, and the rows that hold for a version and model."""

from helpers.each import each
from lore.cache.falls import fall_table, find_fall
from lore.model.state import SIGNS


@each("signal, fields, unread", [
    ("hook-context", {"at_prompt": True}, "text"), ("hook-context", {}, ""),
    ("tool-reference", {"version": "2.1.118", "is_first": True}, ""),
    ("tool-reference", {"version": "2.1.119", "is_first": True}, "head"),
    ("tool-reference", {"version": "2.1.119"}, ""),
    ("tool-reference", {"version": "2.1.209", "is_first": True}, ""), ("tool-reference", {"is_first": True}, ""),
    ("no-thinking", {"at_prompt": True, "model": "claude-sonnet-4-5"}, "history"),
    ("no-thinking", {"at_prompt": True, "model": "claude-opus-4-6"}, ""), ("no-thinking", {"at_prompt": True}, ""),
    ("skill", {"at_prompt": True, "version": "2.1.58"}, "text"),
    ("skill", {"at_prompt": True, "version": "2.1.59"}, ""), ("skill", {"at_prompt": True}, ""),
    ("skill", {"version": "2.1.58"}, ""), ("api-error", {}, ""),
    ("permission-mode", {}, ""), ("tools-delta", {"at_prompt": True}, ""),
    ("effort", {}, "history"), ("effort", {"provider": "openai"}, ""), ("slash-command", {"at_prompt": True}, ""),
])  # fmt: skip
def test_signal_predicts_a_fall_by_version_and_model(signal, fields, unread):
    criteria = {"at_prompt": False, "is_first": False, "version": "", "model": "", **fields}
    fall = find_fall(signal, **criteria)
    assert (fall.unread if fall else "") == unread


def test_every_fall_names_a_known_signal():
    signals = {fall.signal for fall in fall_table().falls}
    assert signals - {"reasoning", "first-without-thinking", "thinking-off"} <= set(SIGNS)


def test_most_reads_fell_in_each_row():
    assert all(2 * fall.fell > fall.seen for fall in fall_table().falls)
