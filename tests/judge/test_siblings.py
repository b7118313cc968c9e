"""Conversations that begin alike: without a breakpoint at the end of it (LORE172), or reading nothing (LORE307)."""

import pytest
from msgspec.structs import replace

from helpers.each import each
from judge.captures import SYSTEM, call, judged
from judge.foretelling import CACHE_CONTROL, PLACE, answered_turn, bill
from lore.model.turn import Call
from lore.run.rules import Dated
from model.making import parsed

DOCUMENT = "The harbour was built in the north, and its cranes are moved by hand. " * 600  # some 9,000 tokens


def question(number, *, marked=True, on_document=False, document=DOCUMENT, model="claude-opus-5"):
    """Return a request with a document and a question, with a breakpoint on the question or on the document."""
    blocks = [{"type": "text", "text": document}, {"type": "text", "text": f"Question {number}: what does it say?"}]
    for block, is_marked in zip(blocks, (on_document, marked), strict=True):
        block |= {"cache_control": CACHE_CONTROL} if is_marked else {}
    return {"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": blocks}]}


def ask(*bodies, gap=20.0, usages=None, **fields):
    usages = usages or [bill(0, 9_040) for _ in bodies]
    pairs = zip(bodies, usages, strict=True)
    turns = [answered_turn(gap * n, body, usage, f"chain-{n}", **fields) for n, (body, usage) in enumerate(pairs)]
    return [replace(turn, number=1) for turn in turns]


def shared(turns):
    """Return the findings about what conversations share."""
    judge = Dated().judge()
    for turn in turns:
        judge.turn(turn)
    return [finding for finding in judge.finish(PLACE) if finding.code == "LORE172"]


def test_document_without_its_own_breakpoint_is_named():
    (finding,) = shared(ask(*map(question, range(4))))
    assert (finding.chain, finding.json_path, finding.evidence.requests) == ("chain-1", "messages[0].content[0]", 3)
    assert 8_900 < finding.evidence.tokens < 9_040
    assert finding.lost_tokens == pytest.approx(3 * finding.evidence.tokens, abs=3)
    assert (finding.kind, finding.tokens) == ("unattributable", "estimated")
    assert finding.evidence.marked == "messages[0].content[1]"
    assert "no breakpoint is at the end of them" in finding.message
    assert "byte" not in finding.message
    assert finding.fix.startswith("Set a cache breakpoint at the end of what the requests share")
    assert finding.lost_dollars == pytest.approx(
        finding.lost_tokens * (6.25 - 0.5) / 1e6, abs=2e-6
    )  # written, instead of read


def test_beginning_of_a_block_that_then_differs_is_named():
    """Instructions and the user's name in one block with a breakpoint: nothing was reported (pydantic-ai#3630)."""
    bodies = [question(0, marked=False, on_document=True, document=f"{DOCUMENT}You serve {name}.")
              for name in ("Ann", "Bob", "Cyd")]  # fmt: skip
    (finding,) = shared(ask(*bodies))
    assert (finding.json_path, finding.evidence.requests) == ("messages[0].content[0]", 2)
    assert 8_900 < finding.evidence.tokens < 9_040
    assert finding.evidence.inside == pytest.approx(len(DOCUMENT), abs=50)
    assert finding.fix.startswith("Send the part that stays the same as a block of its own")
    assert shared(ask(*(question(0, document=f"{name} {DOCUMENT}") for name in ("Ann", "Bob")))) == []
    heads = [[{"type": "text", "text": f"{DOCUMENT}You serve {name}.", "cache_control": CACHE_CONTROL}]
             for name in ("Ann", "Bob")]  # fmt: skip
    (finding,) = shared(ask(*({**question(0, document="Look."), "system": head} for head in heads)))
    assert (finding.json_path, finding.evidence.marked) == ("system[0]", "system[0]")


def openai_question(number, model="gpt-5.6-sol", **fields):
    """Return a request with a document for instructions and a question; `fields` are of the document."""
    document = [{"type": "input_text", "text": DOCUMENT, **fields}]
    question = [{"type": "input_text", "text": f"Question {number}: what does it say?"}]
    items = [{"role": role, "content": content} for role, content in (("developer", document), ("user", question))]
    return {"model": model, "prompt_cache_key": "k", "input": items}


MARKED = {"prompt_cache_breakpoint": {"mode": "explicit"}}


@each("fields, model, codes", [
    ({}, "gpt-5.6-sol", ["LORE172"]),
    (MARKED, "gpt-5.6-sol", ["LORE307"]),  # marked, and nothing is read all the same
    ({}, "gpt-5.1", ["LORE307"]),
])  # fmt: skip
def test_openai_requests_share_an_unmarked_beginning(fields, model, codes):
    bodies = [openai_question(number, model, **fields) for number in range(4)]
    judge = Dated().judge()
    for turn, body in zip(ask(*bodies), bodies, strict=True):
        judge.turn(replace(turn, source=parsed(body, "openai-responses")))
    found = [finding for finding in judge.finish(PLACE) if finding.code in ("LORE172", "LORE307")]
    assert [finding.code for finding in found] == codes
    assert found[0].lost_tokens == pytest.approx(3 * 9_000, rel=0.02)


def test_head_charged_to_a_changed_id_is_not_shared():
    """What precedes the id was counted twice: with the change, and as text without a breakpoint of its own."""
    bodies = [
        {**question(number, document="Look."), "system": [
            {"type": "text", "text": DOCUMENT},
            {"type": "text", "text": f"You are {number}f3c9a7e-88b1-4d06-9a55-0c1e.", "cache_control": CACHE_CONTROL}
        ]} for number in range(3)
    ]  # fmt: skip
    judge = Dated().judge()
    verdicts = [judge.turn(turn) for turn in ask(*bodies, usages=[bill(0, 9_060)] * 3)]
    assert [verdict.lost_tokens > 9_000 for verdict in verdicts[1:]] == [True, True]
    assert [finding.code for finding in judge.finish(PLACE) if finding.code == "LORE172"] == []


def test_part_before_an_earlier_breakpoint_is_not_counted():
    """Both requests mark the first document; only the second one is written again."""
    bodies = [question(number) for number in range(2)]
    for request_body in bodies:
        first = {"type": "text", "text": f"First. {DOCUMENT}", "cache_control": CACHE_CONTROL}
        request_body["messages"][0]["content"].insert(0, first)
    (finding,) = shared(ask(*bodies, usages=[bill(0, 18_080), bill(9_040, 9_040)]))
    assert 8_900 < finding.evidence.tokens < 9_100
    (unread,) = shared(ask(*bodies, usages=[bill(0, 18_080)] * 2))  # the usage alone does not limit the loss
    assert 8_900 < unread.evidence.tokens < 9_100


def test_requests_without_any_breakpoint_are_compared():
    bodies = [question(number, marked=False) for number in range(3)]
    assert len(shared(ask(*bodies, usages=[bill(0, 0, 9_040)] * 3))) == 1


def test_automatic_breakpoint_after_the_question_is_no_shared_one():
    bodies = [question(number, marked=False) | {"cache_control": CACHE_CONTROL} for number in range(3)]
    (finding,) = shared(ask(*bodies))
    assert (finding.json_path, finding.evidence.requests) == ("messages[0].content[0]", 2)


def test_history_up_to_an_automatic_breakpoint_is_covered():
    first = question(1, marked=False) | {"cache_control": CACHE_CONTROL}
    longer = {**first, "messages": [*first["messages"], {"role": "assistant", "content": "Much."}]}
    assert shared(ask(first, longer, usages=[bill(0, 9_040), bill(0, 9_050)])) == []


@each([
    ask(question(1)),
    ask(*(question(number, on_document=True) for number in range(3)), usages=[bill(0, 9_040), *[bill(9_000, 40)] * 2]),
    ask(question(1), question(2), usages=[bill(0, 9_040), bill(9_000, 40)]),  # another request had written it
    ask(question(1), question(2), gap=400),  # no entry would have lived so long
    ask(question(1), question(2, model="claude-sonnet-5")),
    ask(question(1), question(2, document="Another text. " * 900)),
    ask(question(1, document="Short."), question(2, document="Short."), usages=[bill(0, 0, 30)] * 2),
    ask(question(1), question(2), usages=[bill(0, 9_040), None]),
    [replace(turn, call=Call(account=str(turn.chain))) for turn in ask(question(1), question(2))],
])  # fmt: skip
def test_requests_that_lose_nothing_are_not_named(turns):
    assert shared(turns) == []


# beginnings that nothing reads

VLLM = {"system_fingerprint": "vllm-0.26.0-a84d830d", "kv_transfer_params": None}


def one_shots(
    *reads, pause=20.0, system=SYSTEM, url="http://10.0.0.9:8000/v1/chat/completions", answer=VLLM, begin=0.0, **fields
):
    """Return requests with one system prompt, each with a question of its own."""
    calls = []
    for number, read in enumerate(reads):
        bill = {"prompt_tokens": 6_040, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": read}}
        question = {"role": "user", "content": f"Sort mail {number}, please."}
        own = {name: value(number) if callable(value) else value for name, value in fields.items()}
        body = {"model": "gpt-5.2", "messages": [{"role": "system", "content": system}, question], **own}
        exchange = call(begin + pause * number, body, bill, url=url)
        exchange["response"]["body"] = {"id": f"c{number}", "object": "chat.completion", "usage": bill, **answer}
        calls.append(exchange)
    return calls


@pytest.mark.parametrize(("more", "reasons"), [
    ({}, ("engine-reads-nothing",)),
    ({"url": "https://api.openai.com/v1/chat/completions", "answer": {}}, ("no-cache-key",)),
    ({"url": "https://api.openai.com/v1/chat/completions", "answer": {}, "prompt_cache_key": "mail"}, ()),
    ({"url": "https://api.openai.com/v1/chat/completions", "answer": {}, "prompt_cache_key": str}, ("changing-key",)),
])  # fmt: skip
def test_beginning_that_no_conversation_reads_is_found(tmp_path, more, reasons):
    _, final_findings = judged(tmp_path, *one_shots(0, 0, 0, 0, **more))
    (finding,) = [candidate for candidate in final_findings if candidate.code == "LORE307"]
    assert (finding.evidence.turns, finding.evidence.reasons, finding.kind) == (3, reasons, "unattributable")
    assert finding.lost_tokens == pytest.approx(3 * 6_000, rel=0.02)


@pytest.mark.parametrize("calls", [
    one_shots(0, 0, 0),  # two repeats
    one_shots(0, 0, 5_888, 0, 0),  # one reads it
    one_shots(0, 0, 0, 0, pause=0.1),  # sent together
    [{"request": made["request"], "response": {**made["response"], "timestamp": None}}
     for made in one_shots(0, 0, 0, 0, pause=0.1)],  # when they were answered is not recorded
    one_shots(0, 0, 0, 0, pause=400.0),  # too long apart
    one_shots(0) + one_shots(0, 0, 0, pause=0.0, begin=400.0),  # sent together, after it expired
    one_shots(0, 0, 0, 0, system="Sort mail."),
])  # fmt: skip
def test_beginning_that_may_be_unread_is_not_found(tmp_path, calls):
    _, final_findings = judged(tmp_path, *calls)
    assert "LORE307" not in [finding.code for finding in final_findings]
