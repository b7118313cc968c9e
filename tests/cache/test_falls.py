"""Signals after which most reads fell, and the rows that hold for a version and model."""

from helpers.each import each
from lore.cache.falls import fall_table, find_fall
from lore.model.state import SIGNS


@each("sign, fields, moves", [
    ("hook-context", {"prompted": True}, "text"), ("hook-context", {}, ""),
    ("tool-reference", {"version": "2.1.118", "first": True}, ""),
    ("tool-reference", {"version": "2.1.119", "first": True}, "head"), ("tool-reference", {"version": "2.1.119"}, ""),
    ("tool-reference", {"version": "2.1.209", "first": True}, ""), ("tool-reference", {"first": True}, ""),
    ("no-thinking", {"prompted": True, "model": "claude-sonnet-4-5"}, "history"),
    ("no-thinking", {"prompted": True, "model": "claude-opus-4-6"}, ""), ("no-thinking", {"prompted": True}, ""),
    ("skill", {"prompted": True, "version": "2.1.58"}, "text"), ("skill", {"prompted": True, "version": "2.1.59"}, ""),
    ("skill", {"prompted": True}, ""), ("skill", {"version": "2.1.58"}, ""),
    ("api-error", {}, ""), ("permission-mode", {}, ""), ("tools-delta", {"prompted": True}, ""),
    ("effort", {}, "history"), ("effort", {"provider": "openai"}, ""), ("slash-command", {"prompted": True}, ""),
])  # fmt: skip
def test_signal_predicts_a_fall_by_version_and_model(sign, fields, moves):
    facts = {"prompted": False, "first": False, "version": "", "model": "", **fields}
    fall = find_fall(sign, **facts)
    assert (fall.moves if fall else "") == moves


def test_every_fall_names_a_known_signal():
    signals = {fall.signal for fall in fall_table().falls}
    assert signals - {"reasoning", "first-without-thinking", "thinking-off"} <= set(SIGNS)


def test_most_reads_fell_in_each_row():
    assert all(2 * fall.fell > fall.seen for fall in fall_table().falls)
