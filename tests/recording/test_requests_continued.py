"""Requests that continue a response have the complete prompt, or a partial one if a part is not recorded."""

import pytest

from lore.model.turn import Exchange, Memo
from lore.prefix.overlap import compare_prompts, name_relation
from lore.prompt.dialects import DIALECTS
from lore.recording.requests import Continuations
from model.making import dumps

DIALECT = DIALECTS["openai-responses"]
TOOLS = [{"type": "function", "name": "ls", "parameters": {}}]


def user(text):
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def system(text):
    return {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}]}


def call(number):
    return {"id": f"fc{number}", "type": "function_call", "call_id": f"c{number}", "name": "ls", "arguments": "{}"}


def result(number):
    return {"type": "function_call_output", "call_id": f"c{number}", "output": f"out {number}"}


class Talk:
    """Requests of one recording, one after another."""

    def __init__(self, **settings):
        self.follow = Continuations(**settings)
        self.memo = Memo()

    def ask(self, items, name="", *, after="", output=None, **more):
        body = {"model": "gpt-5.4", "instructions": "Be brief.", "tools": TOOLS, "input": items, **more}
        if after:
            body["previous_response_id"] = after
        output_data = b"" if output is None else dumps(output)
        exchange = Exchange(dumps(body), "wire", response_id=name, output=output_data)
        prompt = DIALECT.parse(exchange.body, "wire", self.memo)
        return self.follow.complete(prompt, exchange, DIALECT)


def whole(items):
    """The prompt of a request that sends all of this."""
    body = dumps({"model": "gpt-5.4", "instructions": "Be brief.", "tools": TOOLS, "input": items})
    return DIALECT.parse(body, "wire", Memo())


def segments_of(prompt):
    return [(segment.path, segment.section, segment.kind, segment.data) for segment in prompt]


def test_continued_prompt_equals_complete_request():
    talk = Talk()
    talk.ask([system("s"), user("a")], "r1", output=[call(1)])
    talk.ask([result(1)], "r2", after="r1", output=[call(2), call(3)])
    prompt, missing = talk.ask([result(2), result(3), user("b")], "r3", after="r2")
    assert (prompt.partial, missing) == (False, "")
    every = [system("s"), user("a"), call(1), result(1), call(2), call(3), result(2), result(3), user("b")]
    assert segments_of(prompt) == segments_of(whole(every))


def test_history_is_shared_and_never_made_again():
    """Law 8: a turn costs as much as it adds."""
    talk = Talk()
    before = talk.ask([user("a")], "r0", output=[call(0)])[0]
    for n in range(1, 400):
        after = talk.ask([result(n - 1)], f"r{n}", after=f"r{n - 1}", output=[call(n)])[0]
        assert after.messages[len(before.messages) - 1] is before.messages.last()
        before = after
    assert before.messages.last().path == "input[798].output"


def test_request_without_messages_is_extended():
    """Codex sends its tools before the first message, over a socket, and continues that."""
    talk = Talk()
    ahead = talk.ask([], "r1", output=[])[0]
    after, missing = talk.ask([system("s"), user("a")], "r2", after="r1")
    assert (missing, name_relation(ahead, after, compare_prompts(ahead, after))) == ("", "extension")
    assert segments_of(after) == segments_of(whole([system("s"), user("a")]))


def test_missing_response_makes_prompt_partial():
    prompt, missing = Talk().ask([result(1)], "r2", after="r1")
    assert (prompt.partial, missing) == (True, "r1")


def test_missing_answer_makes_prompt_partial():
    talk = Talk()
    first = talk.ask([user("a")], "r1")[0]
    prompt, missing = talk.ask([result(1)], "r2", after="r1")
    assert (prompt.partial, missing) == (True, "r1")
    assert compare_prompts(first, prompt).is_covered


def test_continuing_partial_prompt_reports_once():
    talk = Talk()
    talk.ask([result(1)], "r2", after="r1", output=[call(2)])
    prompt, missing = talk.ask([result(2)], "r3", after="r2")
    assert (prompt.partial, missing) == (True, "")


def test_a_conversation_that_the_provider_keeps_is_followed():
    talk = Talk()
    talk.ask([user("a")], "r1", output=[call(1)], conversation={"id": "conv_1"})
    prompt, missing = talk.ask([result(1)], "r2", conversation="conv_1")
    assert (missing, segments_of(prompt)) == ("", segments_of(whole([user("a"), call(1), result(1)])))


def test_forgotten_response_makes_prompt_partial():
    talk = Talk(remembered=20_000)
    for n in range(50):
        talk.ask([user("x" * 500)], f"r{n}", output=[])
    assert talk.ask([user("b")], "n", after="r0")[0].partial
    assert not talk.ask([user("b")], "m", after="r49")[0].partial


def test_breakpoints_of_continued_request_follow_their_segments():
    talk = Talk()
    part = {"type": "input_text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}}
    cached = {"type": "message", "role": "user", "content": [part]}
    talk.ask([cached], "r1", output=[call(1)])
    prompt = talk.ask([result(1), cached], "r2", after="r1")[0]
    assert [prompt.segment_at(place).path for place in prompt.breakpoints] == [
        "input[0].content[0]",
        "input[3].content[0]",
    ]


@pytest.mark.parametrize("output", [b"null", b"{}", b"[1,null]", b'"x"', b"[[]]"])
def test_wrong_types_of_an_answer_are_no_error(output):
    talk = Talk()
    talk.follow.complete(whole([user("a")]), Exchange(b"{}", "wire", response_id="r1", output=output), DIALECT)
    assert talk.ask([user("b")], "r2", after="r1")[0].messages.last() is not None
