"""An agent built with lore reads as large a share of its input from the cache as a careful hand-written one."""

import datetime
import hashlib
import json

import pytest

import lore
from lore.events import compact_applied, knowledge
from lore.prompt.knowledge import ANNOUNCED

RULES = " ".join(f"Rule {n}: name the file of part {n}, the reason, and the smallest change." for n in range(40))
TOOLS = [
    {"name": name, "description": f"{name} in the repository. " * 8, "input_schema": {"type": "object"}}
    for name in ("read_file", "grep", "run_tests")
]
MARK = {"cache_control": {"type": "ephemeral"}}
QUESTIONS = [f"ASK {n} times: which check does part {n} of the parser lack?" for n in (1, 0, 2, 30, 0, 1, 0, 2)]


class Provider:
    """A Messages API that bills by Anthropic's published rules (prompt caching guide, October 2026).

    An entry is written at each breakpoint after 512 tokens, lives five minutes, is renewed when it is read, and is
    found from a breakpoint at most 20 positions after it. A token is four bytes.
    """

    def __init__(self):
        self.now, self.entries, self.usages = 0.0, {}, []

    def create(self, **body):
        self.now += 7
        blocks = [*body["tools"], *body["system"]]
        blocks += [{"role": message["role"], **block} for message in body["messages"] for block in message["content"]]
        marks = [at for at, block in enumerate(blocks) if "cache_control" in block]
        assert len(marks) <= 4
        digest, digests, tokens = hashlib.sha256(body["model"].encode()), [], [0]
        for block in blocks:
            content = json.dumps({key: value for key, value in block.items() if key != "cache_control"}).encode()
            digest.update(content)
            digests.append(digest.hexdigest())
            tokens.append(tokens[-1] + len(content) // 4)
        looked = (at for mark in reversed(marks) for at in range(mark, max(mark - 20, -1), -1))
        hit = next((at for at in looked if self.entries.get(digests[at], -1) > self.now), -1)
        written = [at for at in marks if at > hit and tokens[at + 1] >= 512]
        for at in (*written, *([hit] if hit >= 0 else [])):
            self.entries[digests[at]] = self.now + 300
        read, end = tokens[hit + 1], tokens[max([hit, *written]) + 1]
        self.usages.append((read, end - read, tokens[-1] - end))
        return {"role": "assistant", "content": self._answer(body["messages"]), "stop_reason": "end_turn"}

    def _answer(self, messages):
        """Call a tool as often as the last question says, ten times and more in one response; then answer."""
        blocks = [block for message in messages for block in message["content"]]
        ask_index = max(at for at, block in enumerate(blocks) if block.get("text", "").startswith("ASK"))
        missing = int(blocks[ask_index]["text"].split()[1]) - sum(
            item["type"] == "tool_result" for item in blocks[ask_index:]
        )
        if not missing:
            return [text(f"Part {ask_index} lacks a check. " * 9)]
        calls = range(missing) if missing > 10 else (0,)
        return [{"type": "tool_use", "id": f"c{len(blocks) + n}", "name": "grep", "input": {"n": n}} for n in calls]

    @property
    def share(self):
        """The share of all input that was read from the cache."""
        return sum(read for read, _, _ in self.usages) / sum(map(sum, self.usages))


def time_of(provider):
    return datetime.datetime.fromtimestamp(provider.now, datetime.UTC).isoformat()


def text(words, **marks):
    return {"type": "text", "text": words, **marks}


def result_of(call):
    return f"result {call}: " + "a key and its value; " * 30


def run_with_lore(provider, user, keep=0):
    session = lore.Session("claude-opus-5", system=RULES, tools=TOOLS, session_id=f"s-{user}")
    session.apply(knowledge("add", "name-of-user", title="name", content=f"The person is called {user}."))
    for number, question in enumerate(QUESTIONS):
        if number == 3:
            session.apply(knowledge("add", "release-1", title="release", content="1.1 is out."))
        if number == 5 and keep:
            session.compact("Some parts were looked at.", keep=keep)
        elif number == 5:
            session.apply(compact_applied("d1", "manual", summary="Some parts were looked at."))
        session.user(question)
        while calls := session.assistant(provider.create(**session.request(current_time=time_of(provider)))).calls:
            for call in calls:
                session.result(call.call_id, result_of(call.call_id))


def run_by_hand(provider, user, keep):
    """Send the same words in a layout made by hand: shared part, session, history, time."""
    token = hashlib.sha256(f"s-{user}".encode()).hexdigest()[:8]
    about = f"[session]\nid: s-{user}\n{ANNOUNCED.format(token)}"
    heading = "## Long-term Knowledge\n### General\n"
    entry, release = f"* **[name-] name**: The person is called {user}.", "* **[relea] release**: 1.1 is out."
    first, messages = f"{about}\n\n{heading}{entry}", []
    for number, question in enumerate(QUESTIONS):
        if number == 3:
            news = f"[knowledge update {token}]\n\n{heading}{release}"
            messages.append({"role": "user", "content": [text(news)]})
        if number == 5:
            first = f"{about}\n\n{heading}{entry}\n{release}"
            summary = {"role": "user", "content": [text("Some parts were looked at.")]}
            messages = [summary, *messages[len(messages) - keep :]]
        system = [text(RULES, **MARK), text(first, **MARK)]
        messages.append({"role": "user", "content": [text(question)]})
        while True:
            *before, last = messages
            now = text(f"[current-time]\n{time_of(provider)}")
            end = {**last, "content": [*last["content"][:-1], {**last["content"][-1], **MARK}, now]}
            answer = provider.create(
                model="claude-opus-5", tools=TOOLS, system=system, messages=[*before, end]
            )  # fmt: skip
            messages.append({"role": "assistant", "content": answer["content"]})
            calls = [block["id"] for block in answer["content"] if block["type"] == "tool_use"]
            if not calls:
                break
            results = [{"type": "tool_result", "tool_use_id": call, "content": result_of(call)} for call in calls]
            messages.append({"role": "user", "content": results})


@pytest.mark.parametrize("keep", [0, 3])  # messages that a compaction keeps
@pytest.mark.parametrize("pause", [20, 400])
def test_lore_reads_the_share_of_a_careful_agent(pause, keep):
    by_lore, by_hand = Provider(), Provider()
    for user in ("Ada", "Ben", "Cleo", "Dora"):
        for provider, run in ((by_lore, run_with_lore), (by_hand, run_by_hand)):
            run(provider, user, keep)
            provider.now += pause
    assert len(by_lore.usages) == len(by_hand.usages) == 60
    assert by_lore.share >= by_hand.share


def test_next_session_and_compaction_read_the_shared_part():
    provider = Provider()
    run_with_lore(provider, "Ada")
    run_with_lore(provider, "Ben")
    shared = len(json.dumps([*TOOLS, RULES])) // 4 - 50
    assert provider.usages[0][0] == 0
    assert all(read > shared for read, _, _ in provider.usages[1:])


def test_forty_new_facts_cost_no_share():
    """The ninth fact wrote all knowledge into the system prompt again: 92.4 % of the input was read, not 97.4 %."""
    by_lore, by_hand = Provider(), Provider()
    session = lore.Session("claude-opus-5", system=RULES, tools=TOOLS, session_id="s-1")
    session.apply(knowledge("add", "first", title="first", content="1.0 is out."))
    known, messages = [text(RULES, **MARK), text("Known:\n- first: 1.0 is out.", **MARK)], []
    for number in range(40):
        fact, question = f"Release {number} is out; team {number % 5} has it.", f"ASK 0 times: what of part {number}?"
        session.apply(knowledge("add", f"fact-{number}", title=f"fact-{number}", content=fact))
        session.user(question)
        session.assistant(by_lore.create(**session.request(current_time=time_of(by_lore))))
        news, now = text(f"<news>fact-{number}: {fact}</news>"), text(f"<context>Now: {time_of(by_hand)}</context>")
        sent = [*messages, {"role": "user", "content": [news, text(question, **MARK), now]}]
        answer = by_hand.create(model="claude-opus-5", tools=TOOLS, system=known, messages=sent)
        messages.append({"role": "user", "content": [news, text(question)]})
        messages.append({"role": "assistant", "content": answer["content"]})
    assert by_lore.share >= by_hand.share > 0.9
