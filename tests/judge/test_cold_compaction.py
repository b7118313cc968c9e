"""Requests for a summary: with the conversation's own tools and system prompt they read its cache, else nothing."""

import pytest

from judge.captures import ANTHROPIC, MARK, asks, break_codes, call, compared_turn, judged, text, usage

TALK = [text("user", "Find the bug in the parser, please. " * 60)]
for _number in range(4):
    TALK += [
        text("assistant", f"Step {_number}: I looked into module number {_number} of the parser, and it is sound."),
        text("user", f"Continue with module number {_number + 1}, and read it with the same care as before. " * 20),
    ]
ASKED = text("user", "Please summarize the conversation so far, with all that is needed to continue.")
WHOLE = "\n".join(message["content"][0]["text"] for message in TALK)
AS_TEXT = [text("user", f"Summarize this conversation:\n{WHOLE}")]
OTHER = "You are a summarization assistant. Be complete."


def run(folder, messages, *, read, url=ANTHROPIC, at=20.0, **fields):
    total = 9_200
    verdicts, _ = judged(folder, call(0, asks(*TALK[:-2]), usage(0, 8_500)), call(10, asks(*TALK), usage(8_500, 500)),
        call(at, asks(*messages, **fields), usage(read, total - read), url=url))  # fmt: skip
    return verdicts[2]


@pytest.mark.parametrize(("messages", "fields", "differs"), [
    ([*TALK, ASKED], {"tools": (), "system": OTHER}, ("tools", "system")),
    ([*TALK, ASKED], {"tools": ()}, ("tools",)),
    (AS_TEXT, {"tools": (), "system": OTHER}, ("tools", "system")),
], ids=["other beginning", "no tools", "as one text"])  # fmt: skip
def test_summary_request_with_other_head_is_cold(tmp_path, messages, fields, differs):
    verdict = run(tmp_path, messages, read=0, **fields)
    assert break_codes(verdict) == ["LORE171"]
    assert compared_turn(verdict) == ("main", 2)
    evidence = verdict.causes[0].evidence
    assert (evidence.differs, evidence.cached_tokens, evidence.read_tokens) == (differs, 9_000, 0)
    assert (verdict.causes[0].kind, verdict.lost_tokens) == ("waste", 9_000)
    assert verdict.pair is not None
    assert verdict.pair.price is not None


@pytest.mark.parametrize(("messages", "read", "fields"), [
    ([*TALK, ASKED], 9_000, {}),
    ([*TALK, ASKED], 0, {"tools": (), "system": OTHER, "model": "claude-haiku-4-5"}),
    ([*TALK, ASKED], 0, {"tools": (), "system": OTHER, "url": "https://eu.example.com/v1/messages"}),
    ([*TALK, ASKED], 0, {"tools": (), "system": OTHER, "at": 4_000.0}),
    ([text("user", "Summarize this conversation: " + "nothing of it. " * 80)], 0, {"tools": (), "system": OTHER}),
    ([text("user", "Write a title for this conversation.")], 0, {"tools": ()}),
], ids=["warm", "another model", "another place", "expired", "another conversation", "a title"])  # fmt: skip
def test_warm_or_unavoidably_cold_summary_is_no_finding(tmp_path, messages, read, fields):
    assert "LORE171" not in break_codes(run(tmp_path, messages, read=read, **fields))


@pytest.mark.parametrize(("read", "codes"), [
    (1_500, ["LORE171"]), (4_499, ["LORE171"]), (7_900, []),
], ids=["tools", "less than half", "warm"])  # fmt: skip
def test_summary_request_reading_tools_alone_is_cold(tmp_path, read, codes):
    """A summariser keeps the agent's tools and brings a system prompt of its own: its tools are read, and no more."""
    assert break_codes(run(tmp_path, [*TALK, ASKED], read=read, system=OTHER)) == codes


def test_summary_request_sharing_the_head_reads_it(tmp_path):
    """A client sends its own tools and system prompt, and the conversation as one text: only the former are read."""
    verdict = run(tmp_path, AS_TEXT, read=6_500)
    assert break_codes(verdict) == ["LORE171"]
    assert verdict.causes[0].evidence.differs == ("messages",)


def test_cold_summary_has_tokens_and_cost_of_warm(tmp_path):
    """A summary of half a conversation could not have read all of it; its prompt had cost a tenth, were it warm."""
    verdicts, _ = judged(tmp_path, call(0, asks(*TALK[:-2]), usage(0, 8_500)), call(10, asks(*TALK), usage(8_500, 500)),
        call(20, asks(*TALK[4:], ASKED, tools=(), system=OTHER), usage(0, 0, 4_000)))  # fmt: skip
    assert break_codes(verdicts[2]) == ["LORE171"]
    evidence = verdicts[2].causes[0].evidence
    assert (evidence.cached_tokens, evidence.warm_tokens, verdicts[2].lost_tokens) == (9_000, 4_000, 4_000)
    assert evidence.dollars == pytest.approx(10 * evidence.warm_dollars)
    assert evidence.dollars > 0


def test_warm_summary_sends_the_head_of_its_conversation(tmp_path):
    """Of 9,000 cached tokens 5,000 are tools and system prompt, which the request for a summary left out."""
    verdicts, _ = judged(
        tmp_path,
        call(0, asks(*TALK[:-2]), usage(0, 8_500)),
        call(10, asks(*TALK), usage(8_500, 500)),
        call(20, asks(*TALK, text("assistant", "Done."), ASKED, tools=(), system=OTHER), usage(0, 0, 4_000)),
    )
    evidence = verdicts[2].causes[0].evidence
    assert (evidence.warm_tokens, verdicts[2].lost_tokens) == (9_000, 4_000)
    assert evidence.dollars == pytest.approx(4_000 * 5e-6)
    assert evidence.warm_dollars == pytest.approx(9_000 * 5e-7, rel=0.1)  # and the question


def marked_at(place):
    """Return a request that ends by asking for a summary, with its last breakpoint on the message at `place`."""
    body = asks(*TALK, ASKED)
    messages = [{**original, "content": [{**original["content"][0]}]} for original in body["messages"]]
    for number, message in enumerate(messages):
        message["content"][0].pop("cache_control", None)
        if number == place:
            message["content"][0].update(MARK)
    return {**body, "messages": messages}


@pytest.mark.parametrize(("place", "read", "codes"), [
    (len(TALK) - 3, 8_500, []),
    (len(TALK) - 3, 5_000, ["LORE171"]),
    (len(TALK) - 1, 5_000, []),
    (len(TALK), 9_000, []),
], ids=["no more than a block", "in front", "at the same place", "behind"])  # fmt: skip
def test_summary_request_reads_to_an_early_breakpoint(tmp_path, place, read, codes):
    """A client left its breakpoint in front of the last result, and paid for that result again at each compaction."""
    verdicts, _ = judged(
        tmp_path,
        call(0, asks(*TALK[:-2]), usage(0, 5_000)),
        call(10, asks(*TALK), usage(5_000, 4_000)),
        call(20, marked_at(place), usage(read, 0, 9_200 - read)),
    )
    assert break_codes(verdicts[2])[:1] == codes
    if codes:
        assert verdicts[2].causes[0].evidence.differs == ("breakpoints",)
        assert (verdicts[2].lost_tokens, verdicts[2].causes[0].kind) == (4_000, "waste")
