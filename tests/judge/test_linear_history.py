"""The work of judging a log grows with its turns, not with their square (law 8)."""

from msgspec.structs import replace

from cache.talk import bill
from judge.judged import Judged
from lore.judge.chains.memory import ToolCallSearch
from lore.model.vector import Vector


def entries_visited(turns: int, monkeypatch) -> int:
    """Judge a log without tool calls whose total shrinks every third turn; count the entries that are iterated over."""
    visited = 0
    every, since = Vector.__iter__, Vector.since

    def counting(items):
        nonlocal visited
        for item in items:
            visited += 1
            yield item

    with monkeypatch.context() as patch:
        patch.setattr(Vector, "__iter__", lambda vector: counting(every(vector)))
        patch.setattr(Vector, "since", lambda vector, start: counting(since(vector, start)))
        talk, size = Judged(), 12_000
        for number in range(turns):
            talk.ask()
            talk.turn(bill(size - 4_000, 100) if number % 3 == 2 else bill(size, 100))
            size += 100
    return visited


def test_removed_tool_call_is_not_found_again():
    talk = Judged()
    talk.ask()
    talk.turn(bill(0, 12_000))
    talk.use()
    talk.turn(bill(12_000, 300))
    search = ToolCallSearch()
    is_in_history = []
    for size in (len(talk.entries), 1):  # all of the history, then only the user's first message
        last = replace(talk.last, basis=replace(talk.last.basis, entries=Vector(list(talk.entries)[:size])))
        is_in_history.append(search.is_in(last))
    assert is_in_history == [True, False]


def test_falling_totals_without_tool_calls_cost_linear_work(monkeypatch):
    assert entries_visited(240, monkeypatch) < 3 * entries_visited(120, monkeypatch)
