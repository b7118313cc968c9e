"""The work of judging a log grows with its turns, not with their square (law 8)."""

import json

from msgspec.structs import replace

from cache.talk import bill
from helpers.each import each
from judge.judged import Judged
from lore.judge.chains.memory import ResultSizes
from lore.judge.requests import request_laws
from lore.model.vector import Vector
from lore.run.checking.check import check


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


def test_removed_tool_call_is_not_measured_again():
    talk = Judged()
    talk.ask()
    talk.turn(bill(0, 12_000))
    talk.use(400)
    talk.turn(bill(12_000, 300))
    sizes, measured = ResultSizes(), []
    for size in (len(talk.entries), 1, len(talk.entries)):  # once with the user's first message alone
        last = replace(talk.last, basis=replace(talk.last.basis, entries=Vector(list(talk.entries)[:size])))
        measured.append(sizes.total(last))
    assert measured == [406, 0, 406]


def test_falling_totals_without_tool_calls_cost_linear_work(monkeypatch):
    assert entries_visited(240, monkeypatch) < 3 * entries_visited(120, monkeypatch)


def bodies(turns: int, system: str):
    """Yield requests that send the history again, the first message with a breakpoint of another API."""
    messages = [{"role": "user", "content": [{"type": "text", "text": "Hello", "cachePoint": {"type": "default"}}]}]
    for number in range(turns):
        yield {"model": "claude-opus-5", "max_tokens": 9, "system": system.format(number), "messages": messages}
        messages = [*messages, {"role": "assistant", "content": "Yes."}, {"role": "user", "content": f"{number}?"}]


@each("system", ["Be brief.", "Be brief, {}."])
def test_foreign_breakpoint_counts_in_turns_searched_once(system, tmp_path, monkeypatch):
    searched, find = [], request_laws._field_in
    monkeypatch.setattr(request_laws, "_field_in", lambda segment: searched.append(segment) or find(segment))
    log = tmp_path / "requests.jsonl"
    log.write_text("".join(json.dumps({"request": body}) + "\n" for body in bodies(20, system)))
    findings = check([str(log)]).result.findings
    assert [finding.times for finding in findings if finding.code == "LORE180"] == [20]
    in_messages = [segment for segment in searched if segment.section == "messages"]
    assert len(in_messages) <= 4 * 20
