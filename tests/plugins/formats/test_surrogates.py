"""Lone surrogates in the texts of documents, wherever the file is split."""

import pytest

from helpers.recognising import recognise
from lore.model.codes import Problem
from lore.testing import everything
from lore_plugins.formats.swe_agent import MiniSweAgent, SweAgent

_BLOCK = rb'[{"type":"text","text":"\ud83d"}]'
_CALLS = rb'"tool_calls":[{"id":"a","function":{"name":"ls","arguments":"{}"}}]'
_SURROGATES = (
    (MiniSweAgent, rb'{"info":{"mini_version":"2"},"messages":[{"role":"system","content":"\ud83d"},{"role":"user",'
                   rb'"content":%b},{"role":"assistant",%b,"content":%b},{"role":"tool","tool_call_id":"a",'
                   rb'"content":"\ud83d"}]}' % (_BLOCK, _CALLS, _BLOCK)),
    (SweAgent, rb'{"trajectory":[{"query":[{"role":"user","content":%b}],"action":"","response":"\ud83d",'
               rb'"observation":"\ud83d"},{"response":"\ud83d","action":"","observation":"\ud83d"}]}' % _BLOCK),
)  # fmt: skip


@pytest.mark.parametrize(("reader", "data"), _SURROGATES, ids=lambda value: getattr(value, "name", ""))
def test_lone_surrogates_lose_no_record_of_a_document(reader, data):
    whole = everything(reader(), data)
    assert not [read.value.message for read in whole if isinstance(read.value, Problem)]
    assert recognise(data) is reader
    for at in range(0, len(data), 5):
        reading = reader()
        assert len(list(reading.read([data[:at], data[at:]]))) == len(whole)
