"""LORE307: reads that stay at one level while prompts grow past it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cli.running import lore
from faults.sessions import Session
from helpers.each import each
from judge.foretelling import START, answered_turn, bill, body, chain_codes, chain_findings
from judge.pi_sessions import session
from lore.model.events import Usage
from lore.model.turn import Call
from model.making import parsed, turn

OPENAI = Call(endpoint="api.openai.com/v1/chat/completions")
GATEWAY = Call(endpoint="openrouter.ai/api/v1/chat/completions")
LLAMA = Call(endpoint="127.0.0.1:8080/v1/chat/completions", answered_by="llama.cpp")
VLLM = Call(endpoint="10.0.0.7:8000/v1/messages")
WORDS = "Read the file of the parser, and describe it in one sentence. " * 60  # some 800 tokens


def talk(*reads, grown=400, call=OPENAI, write=None, fields=None, **more):
    """Return requests that each repeat the previous one; `reads` are tokens, of 4,000 and `grown` more each."""
    turns = []
    for number, read in enumerate(reads):
        messages = [{"role": "system", "content": WORDS * 4}]
        for step in range(number + 1):
            messages += [{"role": "user", "content": f"{step}: {WORDS}"}, {"role": "assistant", "content": f"{step}"}]
        extra_fields = {name: value(number) if callable(value) else value for name, value in (fields or {}).items()}
        body = {"model": "gpt-5.4", "prompt_cache_key": "c1", "messages": messages[:-1], **extra_fields, **more}
        usage = None if read is None else Usage(4_000 + grown * number - read, read, write, 20)
        sent_at = START + 60 * number
        prompt = parsed(body, "openai-chat")
        turns.append(turn(prompt, number + 1, usage=usage, sent=sent_at, answered=sent_at + 2, call=call))
    return turns


def plateau(turns):
    (plateau_finding,) = [finding for finding in chain_findings(turns) if finding.code == "LORE307"]
    return plateau_finding


@pytest.mark.parametrize(("reads", "message"), [
    ((0, 3_328, 3_328, 3_328, 3_328), "no more than 3,328 tokens were read in 4 requests in a row"),
    ((0, 0, 0, 0, 0), "nothing was read in 4 requests in a row"),
    ((0, 0, 0), "nothing was read in 2 requests in a row"),  # the whole chain
    ((0, 3_968, 4_352, 3_072, 3_072, 3_072, 3_072), "no more than 3,072 tokens were read in 2 requests in a row"),
])  # fmt: skip
def test_reads_at_one_level_are_a_finding(reads, message):
    finding = plateau(talk(*reads))
    assert message in finding.message
    assert (finding.kind, finding.severity, finding.tokens) == ("unattributable", "warning", "recorded")


def test_low_reads_of_several_machines_are_one_plateau():
    call = Call(endpoint="api.x.ai/v1/chat/completions", betas=())
    xai = {"call": call, "model": "grok-4.6", "prompt_cache_key": None, "grown": 800}
    found = plateau(talk(128, 1_024, 128, 0, 128, **xai))
    assert "no more than 1,024 tokens were read in 4 requests in a row" in found.message
    assert "x-grok-conv-id" in found.fix
    assert "LORE307" not in chain_codes(talk(128, 3_968, 128, 4_864, 128, **xai))


@pytest.mark.parametrize(("model", "factor"), [("gpt-4o-mini", 1), ("gpt-9", 1), ("gpt-4-0613", 10)])
def test_requests_that_no_cache_keeps_are_not_unread(model, factor):
    """A cassette of 11 prompts of GPT-4o mini from 242 tokens to 1,131: only the last could be read (1,024)."""
    talks = [[{"role": "user", "content": f"{i}: {WORDS}"} for i in range(n + 1)] for n in range(8)]
    short = talk(*[0] * 8, model=model, fields={"messages": talks.__getitem__})
    sizes = (242, 381, 538, 693, 858, 939, 1_131, 1_131)
    bills = [Usage(factor * size, 0, None, 20) for size in sizes]
    turns = [replace(each_turn, usage=usage) for each_turn, usage in zip(short, bills, strict=True)]
    assert "LORE307" not in chain_codes(turns)


@pytest.mark.parametrize(("reads", "fields"), [
    ((0, 0, 0, 4_352, 4_864), {}),
    ((0, 0, 0, 0), {"model": lambda number: "gpt-5.4-mini" if number > 1 else "gpt-5.4"}),
])  # fmt: skip
def test_unread_requests_that_are_no_plateau(reads, fields):
    assert "LORE307" not in chain_codes(talk(*reads, fields=fields))


def test_marked_prefix_of_gemini_is_named():
    """A gateway makes an explicit cache of what is marked; steps of Gemini's own cache are no reason then."""
    gemini = Call(endpoint="generativelanguage.googleapis.com/v1beta/models/gemini-3.5-flash:generateContent")
    tool = {"type": "function", "function": {"name": "read"}, "cache_control": {"type": "ephemeral"}}
    finding = plateau(talk(*(0, *[3_400] * 6), grown=800, call=gemini, model="gemini-3.5-flash", tools=[tool]))
    assert finding.evidence.reasons == ("marked-prefix",)
    assert "what precedes its last cache_control" in finding.message


def test_unread_requests_between_reads_are_not_uncached_by_design():
    """An endpoint that reads other requests of the conversation has a cache."""
    finding = plateau(talk(0, 3_328, 0, 0, 0, 0, call=GATEWAY))
    assert "requests reached other machines, or the cache was full" in finding.message
    assert "does not cache such requests" in plateau(talk(0, 0, 0, 0, 0, call=GATEWAY)).message


def test_plateau_counts_the_tokens_that_each_request_repeats():
    finding = plateau(talk(0, 3_328, 3_328, 3_328))
    assert (finding.turn, finding.lost_tokens) == (2, 672 + 1_072 + 1_472)
    assert (finding.evidence.repeated_tokens, finding.evidence.reasons) == (4_800, ())
    assert "no reason is recorded" in finding.message


def test_second_low_read_counts_once():
    """Its own finding says what it lost; the plateau counts the turns after it."""
    turns = talk(0, 3_968, 4_352, 3_072, 3_072, 3_072)
    assert chain_codes(turns) == ["LORE307"]
    assert (plateau(turns).lost_tokens, plateau(turns).evidence.turns) == (5_600 - 3_072, 1)


def test_one_equal_request_that_reads_nothing_is_a_finding():
    same = {"grown": 0, "fields": {"messages": lambda _: [{"role": "user", "content": WORDS * 5}]}}
    assert "nothing was read in a request that repeats 4,000 tokens" in plateau(talk(0, 0, **same)).message
    unknown = {"call": Call(endpoint="llm.example.com/v1/chat/completions"), "model": "tiny-1"}
    assert "LORE307" not in chain_codes(talk(0, 0, **same, **unknown))


def test_longest_of_two_plateaus_is_reported():
    reads = (0, 3_328, 3_328, 3_328, 3_328, 3_328, 6_144, 6_144, 6_144, 6_144)
    assert plateau(talk(*reads)).evidence.read_tokens == 3_328


@pytest.mark.parametrize("call", [OPENAI, Call(endpoint="llm.example.com/v1/chat/completions")])
def test_cache_never_read_needs_no_growth(call):
    """Steps of a loop add less than two blocks, but each repeats 4,000 tokens at full price."""
    finding = plateau(talk(0, 0, 0, 0, 0, grown=30, call=call))
    assert (finding.lost_tokens, finding.evidence.read_tokens) == (4_000 + 4_030 + 4_060 + 4_090, 0)


@pytest.mark.parametrize(("grown", "is_found"), [(120, False), (200, True)])
def test_plateau_needs_growth_of_two_blocks(grown, is_found):
    """A block of OpenAI's cache has 128 tokens; the third read repeats two steps more than the first."""
    assert ("LORE307" in chain_codes(talk(0, 3_328, 3_328, 3_328, grown=grown))) == is_found


@each([
    talk(0, 3_968, 4_352, 4_736, 5_120),  # reads grow with the prompt
    talk(0, 3_328, 3_328),  # two reads are no plateau
    talk(0, 3_968, 3_968, 3_968, grown=40),  # the prompt grew by less than a block each
    talk(0, 3_328, None, 3_328, 3_328),  # a usage is missing
    talk(0, 0, 0, 0, 0, write=900),  # a cache that bills writes: see LORE305
    talk(0, 0, 0, fields={"model": lambda number: f"gpt-5.{number}"}),  # each model has a cache of its own
])  # fmt: skip
def test_other_reads_are_no_plateau(turns):
    assert "LORE307" not in chain_codes(turns)


@pytest.mark.parametrize(("options", "reasons", "words"), [
    ({"call": LLAMA}, ("engine",), "llama.cpp reads what a slot"),
    ({"call": LLAMA, "cache_prompt": False}, ("cache-prompt-off",), "cache_prompt is false"),
    ({"prompt_cache_key": None}, ("no-cache-key",), "without a cache key"),
    ({"fields": {"user": lambda number: f"u{number}"}}, ("changing-key",), "user differs from request to request"),
    ({"call": LLAMA, "fields": {"session_id": lambda number: f"s{number}"}}, ("changing-key",), "session_id differs"),
])  # fmt: skip
def test_plateau_names_what_the_request_shows(options, reasons, words):
    finding = plateau(talk(0, 0, 0, 0, 0, **options))
    assert finding.evidence.reasons == reasons
    assert words in finding.message


def test_plateau_names_a_billing_header_that_is_content():
    """A server with Anthropic's API bills no writes and reads nothing: the header precedes everything."""
    turns = []
    for number in range(4):
        header = {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1.120.a; cch={number:05x};"}
        request_body = body(*(f"{step}: {WORDS}" for step in range(2 * number + 1)), model="qwen3-coder",
                    tools=[{"name": "read", "description": WORDS * 2, "input_schema": {}}])  # fmt: skip
        request_body["system"].insert(0, header)
        turns.append(answered_turn(60 * number, request_body, bill(0, 0, 4_000 + 1_600 * number), call=VLLM))
    finding = plateau([replace(request, number=at) for at, request in enumerate(turns, 1)])
    assert finding.evidence.reasons == ("billing-header",)
    assert "CLAUDE_CODE_ATTRIBUTION_HEADER=0" in finding.fix


def test_plateau_names_a_router_that_alternates():
    turns = talk(0, 0, 0, 0, 0, call=GATEWAY, model="deepseek/deepseek-chat")
    turns = [replace(request, call=replace(request.call, answered_by=f"p{n % 2}")) for n, request in enumerate(turns)]
    finding = plateau(turns)
    assert finding.evidence.reasons == ("changing-provider",)
    assert "provider.order" in finding.fix


def test_unread_gemini_gets_advice_of_an_explicit_cache():
    call = Call(endpoint="generativelanguage.googleapis.com")
    turns = [replace(request, call=call) for request in talk(0, 0, 0, 0, model="gemini-2.5-flash")]
    assert plateau(turns).fix.startswith("Create an explicit cache")


def claude(*reads, **more):
    """Return requests of Anthropic's that each repeat the previous one and write nothing."""
    texts = [f"{number}: {WORDS}" for number in range(2 * len(reads))]
    return [answered_turn(60 * n, body(*texts[: 2 * n + 1], **more), bill(read, 0, 4_000 + 900 * n - read))
            for n, read in enumerate(reads)]  # fmt: skip


@pytest.mark.parametrize("reads", [(0, 0, 0, 0, 0), (0, 2_000, 2_000, 2_000, 2_000)])
def test_breakpoints_at_which_nothing_is_written_are_named(reads):
    finding = plateau(claude(*reads))
    assert finding.evidence.reasons == ("breakpoint-not-honoured",)
    assert finding.fix == "Let the gateway pass cache_control on, and its usage back."
    assert "as if a gateway had removed them" in finding.message


def test_text_after_the_last_breakpoint_is_no_plateau():
    assert "LORE307" not in chain_codes(claude(0, 2_000, 2_000, 2_000, 2_000, breakpoint=None))


@pytest.mark.parametrize(("grown", "is_found"), [(4_000, False), (5_000, True)])
def test_plateau_within_a_step_of_gemini_is_none(grown, is_found):
    turns = talk(0, 3_328, 3_328, 3_328, grown=grown, model="gemini-3-pro", call=GATEWAY)
    assert ("LORE307" in chain_codes(turns)) == is_found


@pytest.mark.parametrize(("level", "expected"), [(4_867, [(2, "LORE307")]), (None, [])])
def test_plateau_of_a_log_is_found(tmp_path, level, expected):
    whole = [5_900 + 1_800 * number for number in range(6)]
    reads = [0, *(before if level is None else level for before in whole[:-1])]
    path = session(tmp_path / "a.jsonl", *((tokens - read, read) for tokens, read in zip(whole, reads, strict=True)))
    output = lore("check", path, "--json").json
    assert [(finding["turn"], finding["code"]) for finding in output["findings"]] == expected


@pytest.mark.parametrize(("uncached", "grown", "turns", "lost"), [
    (20_000, 0, 4, 57_000), (20_000, 0, 3, None), (1_500, 0, 4, None),
    (20_000, 1_000, 4, None),  # text at the end that the agent replaces
])  # fmt: skip
def test_uncached_part_of_a_log_is_found(tmp_path, uncached, grown, turns, lost):
    """A gateway caches the messages alone: each request pays in full for tools and system prompt."""
    log = Session()
    for number in range(turns):
        log.ask(f"Step {number}.")
        log.answer(1_000 * number, 1_000, uncached + grown * number)
    path = tmp_path / "a.jsonl"
    path.write_bytes(log.written())
    findings = lore("check", str(path), "--json").json["findings"]
    assert [finding["lost_tokens"] for finding in findings if finding["code"] == "LORE307"] == ([lost] if lost else [])


def test_attached_files_are_no_uncached_part(tmp_path):
    log = Session()
    for number in range(5):
        log.ask(f"Step {number}.")
        log.answer(21_000 * number, 1_000, 20_000)  # the next request reads them
    path = tmp_path / "a.jsonl"
    path.write_bytes(log.written())
    assert lore("check", str(path), "--json").json["findings"] == []
