"""The reader of flue's sessions: the path through their entries, from documents and from deltas."""

import json
import random
from functools import partial

import pytest

from cli.running import lore, put
from formats import agents
from formats.pi import Pages, call
from helpers.each import each
from helpers.recognising import recognise
from lore.formats.agents.pi import Pi
from lore.formats.registry import rank_alike
from lore.model.canonical import text_of
from lore.model.events import CompactApplied, PatchToolCall, Remove, TurnCanceled, TurnCompleted, TurnFailed
from lore.model.items import (
    AssistantMessage,
    CompactDivider,
    ImageBlock,
    OpaqueItem,
    RawBlock,
    ThinkingBlock,
    ToolCall,
    UserMessage,
)  # fmt: skip
from lore.testing import ReaderContract, everything
from lore_plugins.formats.flue import Flue
from model.making import dumps
from plugins.formats import flue

TREE = [
    flue.user("a", None, "one"), flue.answer("b", "a", "1"), flue.user("c", "b", "two"), flue.answer("d", "c", "2"),
    flue.user("e", "b", "three"), flue.answer("f", "e", "3"),
]  # fmt: skip


class TestContract(ReaderContract):
    reader = Flue
    samples = (
        flue.DOCUMENT, json.dumps(json.loads(flue.DOCUMENT), indent=2).encode(), flue.LINES,
        flue.lines(flue.document(TREE, "d"), flue.delta([flue.user("g", "d", "four")], "g", ("f",))),
        flue.lines(flue.delta(TREE, "f")), flue.lines(*TREE),
    )  # fmt: skip


events = partial(agents.events, Flue)
codes = partial(agents.codes, Flue)
folded = partial(agents.folded, Flue)


def texts(data: bytes) -> list[str]:
    found = []
    for entry in folded(data).main().entries:
        match entry.item:
            case CompactDivider(summary=summary):
                found.append(text_of(bytes(summary)))
            case ToolCall(call_id=call_id, output=output):
                found.append(f"{call_id}: {text_of(bytes(output))}")
            case UserMessage(text=text, blocks=blocks) | AssistantMessage(text=text, blocks=blocks):
                found += [text_of(bytes(block.text)) for block in blocks] if blocks else [text_of(bytes(text))]
            case other:
                found.append(other.type if hasattr(other, "type") else "opaque")
    return found


def test_headless_pi_log_is_pi_before_flue():
    made = Pages().user("look").answer(call("c1")).result("c1").entry("mode_change", mode="plan").answer("done")
    headless = made.data().split(b"\n", 1)[1]
    assert rank_alike(headless, "flue") == rank_alike(headless, "pi") == ["pi", "flue"]
    assert recognise(headless) is Pi
    path = put("session.jsonl", headless)
    assert "read as pi, might be flue" in lore("check", "-v", path).err


def test_a_long_document_is_recognised_by_its_beginning():
    assert recognise(flue.DOCUMENT[:600]) is Flue
    assert recognise(json.dumps(json.loads(flue.DOCUMENT), indent=2).encode()[:600]) is Flue


@pytest.mark.parametrize("other", [
    b'{"type":"session","version":3,"id":"x","timestamp":"2026"}\n',
    b'{"version":1,"entries":[{"request":{"method":"POST"}}]}',
    b'{"log":{"entries":[{"id":"x","parentId":null}]}}',
    b'{"version":2}\n',
])  # fmt: skip
def test_other_files_are_not_recognised(other):
    assert not Flue.recognises(other)


def test_answers_on_other_branches_are_turns():
    data = dumps(flue.document(TREE, "d"))
    assert folded(data).main().turns == 3
    assert [one.usage.output_tokens for one in events(data) if isinstance(one, TurnCompleted)] == [4, 4, 4]


def test_leaf_may_come_before_its_entry():
    assert texts(flue.lines(flue.header("d"), *TREE)) == ["one", "1", "two", "2"]
    assert texts(flue.lines(flue.header("d"), *TREE, flue.delta([], None))) == ["one", "1", "three", "3"]


@pytest.mark.parametrize(
    ("wire", "dialect"),
    [
        ("anthropic-messages", "anthropic"), ("openai-completions", "openai-chat"),
        ("mistral-conversations", "openai-chat"),
        ("openai-responses", "openai-responses"), ("openai-codex-responses", "openai-responses"),
        ("google-vertex", "gemini"), ("bedrock-converse-stream", "bedrock"), ("carrier-pigeon", None),
    ],
)  # fmt: skip
def test_api_gives_the_dialect(wire, dialect):
    data = dumps(flue.document([flue.answer("a", None, "hi", api=wire)], "a"))
    assert folded(data).dialect == dialect


def test_one_hour_writes_are_counted_separately():
    message = flue.answer("a", None, "hi")
    message["message"]["usage"]["cacheWrite1h"] = 2
    bill = next(one.usage for one in events(dumps(flue.document([message], "a"))) if isinstance(one, TurnCompleted))
    assert bill is not None
    assert (bill.write_tokens, bill.write_1h_tokens) == (3, 2)


def test_failed_request_has_no_usage():
    failed = [one for one in events(flue.LINES) if isinstance(one, TurnFailed)]
    assert [(one.usage, one.error) for one in failed] == [(None, "overflow")]
    given_up = flue.answer("a", None, "so f", stopReason="aborted", usage=(1, 2, 3, 4))
    canceled = [one for one in events(dumps(flue.document([given_up], "a"))) if isinstance(one, TurnCanceled)]
    assert canceled[0].usage is not None


def test_model_change_is_recorded():
    entries = [*TREE[:4], flue.user("g", "d", "x"), flue.answer("h", "g", "y", model="claude-haiku-4-5")]
    assert folded(dumps(flue.document(entries, "h"))).main().model == "claude-haiku-4-5"


# deltas


def test_removals_are_applied_before_additions():
    data = flue.lines(flue.header(None), *TREE[:4], flue.delta([flue.answer("d", "c", "better")], "d", ("d",)))
    assert texts(data) == ["one", "1", "two", "better"]
    assert folded(data).main().turns == 3  # the removed answer was a request, too


def test_repeated_delta_changes_nothing():
    more = flue.delta(flue.BEFORE[3:4], "00000004", ("0000000f",))
    once = flue.lines(
        flue.header(None), *flue.BEFORE[:3], flue.FAILED | {"id": "0000000f", "parentId": "00000003"}, more
    )
    assert texts(once) == texts(once + flue.lines(more, more))
    assert codes(once + flue.lines(more)) == []


def test_first_version_of_an_entry_is_kept():
    data = flue.lines(flue.header(None), *TREE[:2], flue.delta([flue.answer("b", "a", "other")], "b"))
    assert (texts(data), codes(data)) == (["one", "1"], ["LORE205"])


def test_a_removed_result_leaves_its_call_without_one():
    entries = flue.BEFORE[:3]
    data = flue.lines(flue.header(None), *entries, flue.delta([], "00000002", ("00000003",)))
    call = folded(data).main().entries[-1].item
    assert isinstance(call, ToolCall)
    assert (call.status, bytes(call.output)) == ("running", b"null")


def test_missing_leaf_is_a_problem():
    assert codes(dumps(flue.document(TREE, "zz"))) == ["LORE204"]
    assert texts(dumps(flue.document(TREE, "zz"))) == ["one", "1", "three", "3"]


# compactions


def test_compaction_without_first_kept_keeps_nothing():
    entries = [*TREE[:4], flue.compaction("k", "d", "all of it", "gone"), flue.user("m", "k", "on")]
    assert texts(dumps(flue.document(entries, "m"))) == ["[Context Summary]\n\nall of it", "on"]


def test_summary_gets_one_heading():
    entries = [*TREE[:2], flue.compaction("k", "b", "[Context Summary]\n\nx", "b")]
    assert texts(dumps(flue.document(entries, "k"))) == ["[Context Summary]\n\nx", "1"]


def test_later_compaction_may_restore_entries():
    entries = [
        *TREE[:4], flue.compaction("k", "d", "first", "d"), flue.user("m", "k", "on"),
        flue.compaction("n", "m", "second", "c"), flue.user("o", "n", "and on"),
    ]  # fmt: skip
    assert texts(dumps(flue.document(entries, "o"))) == ["[Context Summary]\n\nsecond", "two", "2", "on", "and on"]


def test_branch_before_compaction_shows_all():
    entries = [*TREE[:4], flue.compaction("k", "d", "sum", "d"), flue.user("m", "k", "on"), *TREE[4:]]
    assert texts(dumps(flue.document(entries, "f"))) == ["one", "1", "three", "3"]
    assert texts(dumps(flue.document(entries, "m"))) == ["[Context Summary]\n\nsum", "2", "on"]


def test_branch_summary_is_injected_context():
    summary = {
        "type": "branch_summary", "id": "s", "parentId": "b", "timestamp": flue.at(3), "fromId": "d", "summary": "left",
    }  # fmt: skip
    state = folded(dumps(flue.document([*TREE[:4], summary], "s")))
    item = state.main().entries[-1].item
    assert isinstance(item, UserMessage)
    assert (text_of(bytes(item.text)), item.source) == ("[Branch Summary]\n\nleft", "context_injection")


# content


def item(entry):
    """Return the item of a session's only entry."""
    return folded(dumps(flue.document([entry], entry["id"]))).main().entries[0].item


def test_reasoning_keeps_its_signature():
    blocks = [
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"},
        {"type": "thinking", "thinking": "", "thinkingSignature": "data", "redacted": True},
        {"type": "thinking", "thinking": "", "thinkingSignature": '{"type":"reasoning","id":"r","summary":[]}'},
    ]
    found = item(flue.answer("a", None, content=blocks))
    assert isinstance(found, AssistantMessage)
    assert found.blocks is not None
    first, second, third = found.blocks
    assert isinstance(first, ThinkingBlock)
    assert first.signature == "sig"
    assert isinstance(second, RawBlock)
    assert json.loads(bytes(second.json)) == {"type": "redacted_thinking", "data": "data"}
    assert isinstance(third, RawBlock)
    assert json.loads(bytes(third.json))["id"] == "r"


def test_images_are_kept():
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    message = flue.entry("a", None, {"role": "user", "content": [image]})
    found = item(message)
    assert isinstance(found, UserMessage)
    assert found.blocks is not None
    assert isinstance(found.blocks[0], ImageBlock)
    back = flue.result("b", "a", "c1", "", content=[image, {"type": "text", "text": "x"}], isError=True)
    reads = everything(Flue(), dumps(flue.document([flue.user("a", None, "x"), back], "b")))
    (patch,) = [read.value for read in reads if isinstance(read.value, PatchToolCall)]
    assert patch.status == "failed"
    assert [block["type"] for block in json.loads(bytes(patch.output))] == ["image", "text"]


def test_text_keeps_its_escapes():
    text = rb'"\u00e9\/\ud83d"'
    data = dumps(flue.document([flue.user("a", None, "x")], "a")).replace(b'"x"', text)
    assert [bytes(block.text) for block in folded(data).main().entries[0].item.blocks] == [text]


@pytest.mark.parametrize("odd", [
    {"type": "message", "id": "x", "parentId": "b", "timestamp": flue.at(3), "message": {"role": "custom"}},
    {"type": "label", "id": "x", "parentId": "b", "timestamp": flue.at(3), "label": "here"},
    {"type": "message", "id": "x", "parentId": "b", "timestamp": flue.at(3), "message": None},
])  # fmt: skip
def test_unknown_entry_is_an_opaque_problem(odd):
    data = dumps(flue.document([*TREE[:2], odd], "x"))
    assert codes(data) == ["LORE203"]
    assert isinstance(folded(data).main().entries[-1].item, OpaqueItem)


@pytest.mark.parametrize("content", [None, 7, {}, True])
def test_a_message_without_content_is_opaque(content):
    for role in ("user", "assistant"):
        assert isinstance(item(flue.entry("a", None, {"role": role, "content": content})), OpaqueItem)


def test_entries_have_their_place_in_the_file():
    data = json.dumps(flue.document(TREE, "f"), indent=2).encode()
    reads = everything(Flue(), data)
    for read in reads:
        assert data[read.byte : read.byte + 1] == b"{"
        assert data[: read.byte].count(b"\n") + 1 == read.line


def test_leaf_decided_last_has_last_line():
    entries = [flue.user("a", None, "one"), flue.answer("b", "a", "1"), flue.user("c", "b", "two")]
    header = {key: value for key, value in flue.document(entries, "b").items() if key != "entries"}
    data = b"".join(dumps(one) + b"\n" for one in (header, *entries))
    assert everything(Flue(), data)[-1].line == 4


def test_circle_of_parents_is_a_problem():
    entries = [flue.user("a", "b", "one"), flue.answer("b", "a", "1"), flue.user("c", "b", "two")]
    data = dumps(flue.document(entries, "c"))
    assert (texts(data), codes(data)) == (["one", "1", "two"], ["LORE206"])
    alone = dumps(flue.document([flue.user("a", "a", "one")], "a"))
    assert (texts(alone), codes(alone)) == (["one"], ["LORE206"])


def test_missing_parent_ends_the_path():
    data = dumps(flue.document([*TREE[:2], flue.user("c", "gone", "two")], "c"))
    assert (texts(data), codes(data)) == (["two"], ["LORE206"])


def test_parents_may_come_late():
    assert texts(dumps(flue.document(TREE[:4][::-1], "d"))) == ["one", "1", "two", "2"]


def path_texts(entries, leaf):
    """The texts of the path to a leaf, computed in the simplest way."""
    known, found = {one["id"]: one for one in entries}, []
    while leaf in known and leaf not in found:
        found.append(leaf)
        leaf = known[leaf]["parentId"]
    return [known[name]["message"]["content"][0]["text"] for name in reversed(found)]


@each(range(50))
def test_random_trees_give_the_path_to_the_leaf(seed):
    chance = random.Random(seed)
    entries, records, removed = [], [flue.header(None)], []
    while len(entries) < 14:
        new = []
        for _ in range(chance.randrange(4)):
            name = f"e{len(entries) + len(new)}-{chance.randrange(1000)}"
            parent = chance.choice([one["id"] for one in [*entries, *new]][-5:] + [None, "gone"])
            make = chance.choice([flue.user, flue.answer])
            new.append(make(name, parent, f"text {name}"))
        gone = tuple(chance.sample([one["id"] for one in entries], min(len(entries), chance.randrange(2))))
        entries = [one for one in entries if one["id"] not in gone] + new
        removed += gone
        leaf = chance.choice([one["id"] for one in entries]) if entries else None
        record = flue.delta(new, leaf, gone) if chance.random() < 0.7 else flue.document(entries, leaf)
        records += [record, record] if chance.random() < 0.2 else [record]
    expected = path_texts(entries, leaf)
    assert texts(flue.lines(*records)) == texts(dumps(flue.document(entries, leaf))) == expected


def test_jumps_between_branches_have_a_limit(monkeypatch):
    monkeypatch.setattr("lore_plugins.formats.flue.MOST_REPLAYED", 300)
    left = [flue.user(f"l{n}", f"l{n - 1}" if n else None, f"l{n}") for n in range(50)]
    right = [flue.user(f"r{n}", f"r{n - 1}" if n else None, f"r{n}") for n in range(50)]
    jumps = [flue.answer(f"j{n}", ("l49", "r49")[n % 2], f"j{n}") for n in range(100)]
    data = dumps(flue.document([*left, *right, *jumps], "j99"))
    assert codes(data) == ["LORE220"]
    assert texts(data) == [*(f"r{n}" for n in range(50)), "j99"]
    assert sum(len(one.uuids) for one in events(data) if isinstance(one, Remove)) < 1000


def test_repeated_compactions_have_a_limit(monkeypatch):
    monkeypatch.setattr("lore_plugins.formats.flue.MOST_REPLAYED", 300)
    entries, last = [flue.answer("a0", None, "hi")], "a0"
    for n in range(200):
        entries.append(flue.compaction(f"k{n}", last, f"s{n}", "a0"))
        last = f"k{n}"
    kept = [
        len(one.preserved_uuids or ())
        for one in events(dumps(flue.document(entries, last)))
        if isinstance(one, CompactApplied)
    ]
    assert len(kept) == 200
    assert sum(kept) <= 300


@pytest.mark.parametrize(("name", "data"), [("session.json", flue.DOCUMENT), ("session.jsonl", flue.LINES)])
def test_converted_session_folds_alike(desk, name, data):
    put(name, data)
    put("own.jsonl", lore("convert", name).out.encode())
    mine, own = ((lore("fold", path, "--json").lines)[0] for path in (name, "own.jsonl"))
    assert mine["timeline"] == own["timeline"]
    assert mine["usage"] == own["usage"]
    for turn in range(1, mine["usage"]["turns"] + 1):
        assert lore("assemble", f"{name}#{turn}").out == lore("assemble", f"own.jsonl#{turn}").out
