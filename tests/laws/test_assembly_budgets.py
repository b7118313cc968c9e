"""Laws of budgets in assembled prompts, counted with a real vocabulary; cuts split no code point or grapheme."""

import json

import regex
from hypothesis import given
from hypothesis import strategies as st

from helpers.each import each
from helpers.strategies import AWKWARD
from helpers.strategies.sessions import Agent
from lore.model.inserts import cut_graphemes, shorten_ids
from lore.model.state import Fact
from lore.prompt.base import Rules
from lore.prompt.knowledge import HEADING, News, delta_text, estimate
from lore.tokens.o200k import load_encoding

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
PROSE = {
    "english": "The deployment uses PostgreSQL 15 with a read replica; pooling goes through PgBouncer. ",
    "german": "Die Überprüfung der Größe gilt für alle Straßen; Rindfleischetikettierung bleibt. ",
    "polish": "Przedsiębiorstwo szczęście wszechświat, a potem jeszcze konstantynopolitańczykowianeczka. ",
    "chinese": "数据库连接池配置说明文档，请参考以下内容。",
    "korean": "데이터베이스 연결 풀 설정은 다음 문서를 참고하세요. ",
    "arabic": "قاعدة البيانات الرئيسية تستخدم الاتصال ",
    "names": "kubernetes nginx postgresql kubectl systemctl ebpf xfs btrfs zstd ",
    "code": "def f(x: int) -> dict[str, int]:\n\t\treturn {k: v ** 2 for k, v in sorted(x.items()) if v != 0}\n",
    "spaces": "\t \t  \t",
    "emoji": FAMILY + "\U0001f1e9\U0001f1ea",
    "digits": "2026-01-02T03:04:05.678Z 10.0.0.1:8080 ",
}
words = st.one_of(st.sampled_from(list(PROSE.values())), st.sampled_from(AWKWARD))
clean = st.lists(words, max_size=12).map("".join).map(lambda text: text.encode("utf-8", "ignore").decode())
facts = st.lists(
    st.builds(Fact, st.uuids().map(str), st.sampled_from(["", "ops", "people"]), clean.map(lambda t: t[:80]), clean),
    max_size=12, unique_by=lambda fact: fact.id,
)  # fmt: skip


def tokens(text: str) -> int:
    return len(load_encoding().encode(text, disallowed_special=()))


@each([*PROSE])
def test_estimate_is_at_least_real_count(name):
    text = (PROSE[name] * 20).strip()
    assert estimate(text) >= tokens(text)


@given(facts, st.sampled_from([20, 60, 400]))
def test_delta_entries_keep_to_budget(known_facts, budget):
    text = delta_text(
        "s", News(changed=tuple(known_facts)), shorten_ids([fact.id for fact in known_facts], {}), budget
    ).text
    entries = [part for part in text.split("\n\n## ") if part.startswith(HEADING[3:])]
    assert all(tokens("## " + part) <= budget for part in entries)


@given(facts, st.sampled_from([20, 60, 400]))
def test_every_changed_entry_is_shown_or_counted(known_facts, budget):
    ids = [fact.id for fact in known_facts]
    delta = delta_text(
        "s", News(changed=tuple(known_facts), outdated=frozenset(ids[::2])), shorten_ids(ids, {}), budget
    )
    more = next((int(line.split()[1]) for line in delta.text.splitlines() if " in later updates" in line), 0)
    shown_ids = {name for name in ids if f"**[{name[:5]}" in delta.text}
    assert len(shown_ids) + more == len(ids)
    assert shown_ids == delta.delivered | delta.shortened
    assert all(f"[{name[:5]}" in delta.text for name in ids[::2])


@given(facts, st.sampled_from([20, 60, 400]))
def test_later_deltas_deliver_what_did_not_fit(known_facts, budget):
    waiting, ids = list(known_facts), shorten_ids([fact.id for fact in known_facts], {})
    for _ in known_facts:
        delta = delta_text("s", News(changed=tuple(waiting)), ids, budget)
        if waiting:
            assert delta.delivered
        waiting = [fact for fact in waiting if fact.id not in delta.delivered]
    assert not waiting


@given(facts)
def test_delta_is_bounded(known_facts):
    grown = tuple(Fact(fact.id, fact.category, fact.title * 50, fact.content * 50) for fact in known_facts)
    text = delta_text("s", News(changed=grown), shorten_ids([fact.id for fact in grown], {}), 400).text
    assert len(text) <= 400 * 8 + 3 * (500 + 500 + 60) * 3 + 12 * 50 + 300


@given(st.text(alphabet=st.sampled_from([*"ab \u0301\u200d\ud83d", "\U0001f469", "\U0001f1e9", "\r", "\n", "\uac00"])),
       st.integers(0, 12))  # fmt: skip
def test_cut_keeps_as_many_graphemes_as_fit(text, limit):
    clusters, size = regex.findall(r"\X", text), 0
    for cluster in clusters:
        if size + len(cluster) > limit:
            break
        size += len(cluster)
    assert cut_graphemes(text, limit) == text[:size]


@each([*range(895, 905)])
def test_first_entry_is_cut_at_grapheme(size):
    """Entries are cut at 900 characters, which may fall inside an emoji."""
    agent = Agent(rules=Rules(knowledge_tokens=2000))
    agent.user()
    agent.turn()
    agent.know("abcdef", "a " * (size // 2) + "x" * (size % 2) + FAMILY * 400, title="t")
    agent.user()
    text = json.loads(agent.turn().deltas[0].data)["text"]
    excerpt = text.partition("**: ")[2].rstrip("…")
    assert excerpt.endswith((FAMILY, "x", " ", "a"))
    assert FAMILY * 401 not in text
