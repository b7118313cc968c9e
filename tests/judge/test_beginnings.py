"""LORE307 of conversations that begin alike, of which none reads anything."""

import pytest

from judge.captures import SYSTEM, call, judged

VLLM = {"system_fingerprint": "vllm-0.26.0-a84d830d", "kv_transfer_params": None}


def one_shots(
    *reads, pause=20.0, system=SYSTEM, url="http://10.0.0.9:8000/v1/chat/completions", answer=VLLM, begin=0.0, **fields
):
    """Return requests with one system prompt, each with a question of its own."""
    calls = []
    for number, read in enumerate(reads):
        bill = {"prompt_tokens": 6_040, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": read}}
        question = {"role": "user", "content": f"Sort mail {number}, please."}
        body = {"model": "gpt-5.2", "messages": [{"role": "system", "content": system}, question], **fields}
        exchange = call(begin + pause * number, body, bill, url=url)
        exchange["response"]["body"] = {"id": f"c{number}", "object": "chat.completion", "usage": bill, **answer}
        calls.append(exchange)
    return calls


@pytest.mark.parametrize(("more", "reasons"), [
    ({}, ("engine-reads-nothing",)),
    ({"url": "https://api.openai.com/v1/chat/completions", "answer": {}}, ("no-cache-key",)),
    ({"url": "https://api.openai.com/v1/chat/completions", "answer": {}, "prompt_cache_key": "mail"}, ()),
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
    one_shots(0, 0, 0, 0, pause=400.0),  # too long apart
    one_shots(0) + one_shots(0, 0, 0, pause=0.0, begin=400.0),  # sent together, after it expired
    one_shots(0, 0, 0, 0, system="Sort mail."),
])  # fmt: skip
def test_beginning_that_may_be_unread_is_not_found(tmp_path, calls):
    _, final_findings = judged(tmp_path, *calls)
    assert "LORE307" not in [finding.code for finding in final_findings]
