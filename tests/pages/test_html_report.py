"""`--report html=PATH`: files, contents, escaping and redaction of pages."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli.running import lore
from lore.judge.sums import Sums
from lore.model.results.overview import SpendingCause
from lore.report.html.page import causes_block, describe_spending, period_blocks
from pages.sessions import HOSTILE, bodies, growing, session

FALLEN = growing(12, falls=(6,))


class Read(HTMLParser):
    """The tags of a page, its links and its text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.links, self.ids, self.rows, self.attributes, self.text = [], [], [], [], set(), ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        given = dict(attrs)
        self.rows += [given] if "data-cause" in given else []
        self.attributes |= set(given)
        self.links += [given[name] for name in ("href", "src", "action") if name in given]
        self.ids += [given["id"]] if "id" in given else []

    def handle_data(self, data):
        if self.tags[-1:] not in (["script"], ["style"]):
            self.text += data


def page(path="page.html"):
    return Path(path).read_text("utf-8")


def written(*args, path="page.html", code=(0, 1)):
    ran = lore(*args, "--report", f"html={path}")
    assert ran.code in code, ran.err
    return ran


def test_page_holds_session_and_loads_nothing():
    session("a.jsonl", FALLEN)
    ran = written("check", "a.jsonl")
    assert re.search(r"page.html: \d\d kB", ran.err)
    assert "1 cache break" in ran.out
    found = Read(page())
    assert all(re.fullmatch(r"#[rb][\w-]+", link) and link[1:] in found.ids for link in found.links)
    assert not found.attributes & {"style", "onload", "onclick"}
    assert not set(found.tags) & {"img", "link", "iframe", "object", "form", "base", "image", "use", "foreignobject"}
    assert "$" in found.text
    assert "turn 7" in found.text


def test_changed_text_is_shown_before_and_after():
    bodies("b.jsonl", "You help. It is Monday, 2026-01-01.", "You help. It is Monday, 2026-01-02.")
    written("check", "b.jsonl")
    assert re.search(r"<pre>.{0,90}2026-01-0<mark>1.*?</pre>.*?<pre>.{0,90}2026-01-0<mark>2", page(), re.DOTALL)
    assert "<dt>first difference<dd>system[0].text" in page()


def test_folder_has_index_and_pages_of_sessions():
    for name in ("a", "b", "c"):
        session(f"logs/{name}.jsonl", FALLEN if name == "b" else growing(3))
    written("check", "logs", path="out")
    index = Read(page("out/index.html"))
    links = [link for link in index.links if link.startswith("sessions/")]
    assert len(links) == 3
    assert sorted(Path("out/sessions").iterdir()) == sorted(Path("out", link) for link in links)
    first = page(f"out/{links[0]}")  # the costliest session
    assert "<h1>question 0</h1>" in first
    assert "logs/b.jsonl" in first
    assert '<a href="../index.html">' in first
    again = {path: path.read_bytes() for path in Path("out").rglob("*.*")}
    written("check", "logs", path="out/")
    assert {path: path.read_bytes() for path in Path("out").rglob("*.*")} == again


def test_folder_without_sessions_has_only_index():
    bodies("b.jsonl", "You help. " * 400)
    written("lint", "b.jsonl", path="out")
    assert [path.name for path in Path("out").rglob("*")] == ["index.html"]
    text = Read(page("out/index.html")).text
    assert "1 request" in text
    assert "a cache would keep" in text


def test_one_page_shows_sessions_that_lost_most(monkeypatch):
    monkeypatch.setattr("lore.commands.pages.IN_FULL", 2)
    for number in range(5):
        session(f"logs/{number}.jsonl", growing(5 + number, falls=(4,)))
    written("check", "logs")
    found = Read(page())
    assert page().count('<details class="session"') == 2
    assert all(f"{number}.jsonl" in found.text for number in range(5))
    assert "3 sessions are only in the list" in found.text
    assert len(found.ids) == len(set(found.ids))
    assert {link[1:] for link in found.links} <= set(found.ids)


def test_bare_lore_and_compact_write_pages():
    session("home/.claude/projects/-w/a.jsonl", growing(30, falls=(9,)))
    ran = written("--since", "2020-01-01")
    assert "~/.claude" in ran.out
    assert "What agents spent" in page()
    assert "~/.claude/projects/-w/a.jsonl" in page()
    written("compact", "home/.claude/projects/-w/a.jsonl", "--dry-run", "--window", "20000", path="c.html")
    assert len(re.findall(r"\b(?:Yes|No):", page("c.html"))) == 1, "the answer stands once"
    assert "Compacting this session" in page("c.html")
    assert 'class="plot"' in page("c.html")
    written("--since", "2020-01-01", path="over")
    assert Path("over/index.html").is_file()
    assert len(list(Path("over/sessions").iterdir())) == 1


def test_page_of_one_session_has_each_part_once():
    session("a.jsonl", FALLEN)
    assert lore("report", "--format", "html", "a.jsonl", "-o", "page.html").code == 0
    text = Read(page()).text
    assert [text.count(part) for part in ("Where the money went", "Re-billed, by cause", "Re-billed: $")] == [1, 1, 1]


def test_session_shows_listed_cost_and_names_other_requests():
    """The heading had the whole session's cost, and the list that of the period."""
    for name in ("a", "b"):
        session(f"home/.claude/projects/-w/{name}.jsonl", growing(3), minutes=[0, 1, 5000])
    written("--since", "2026-01-02")
    shown = re.findall(r"<summary><b>question 0 \(([ab])\.jsonl\)</b> (.*?), re-billed", page())
    costs = re.findall(r'data-h="cost">([^<]+)', page())
    assert shown == [*zip("ab", costs, strict=True)]
    assert Read(page()).text.count("2 of these requests are not in the list of sessions") == 2


@pytest.mark.parametrize("target", ["page.html", "pages"])
@pytest.mark.parametrize("command", ["check", "simulate"])
def test_request_of_a_fork_costs_in_one_session(command, target):
    session("logs/a.jsonl", growing(3))
    session(
        "logs/fork/a.jsonl", growing(5), words="!", minutes=range(1, 6)
    )  # with the responses of the first one, and two more
    written(command, "logs", path=target)
    listed = page(target if target.endswith(".html") else "pages/index.html")
    assert sorted(re.findall(r'data-h="requests">([^<]+)', listed)) == ["2", "3"]
    text = "".join(Read(path.read_text("utf-8")).text for path in Path().rglob("*.html"))
    assert text.count("3 of these requests are not in the list of sessions") == 1


def test_check_page_of_one_file_folds_findings():
    session("a.jsonl", FALLEN)
    session("b.jsonl", growing(3))
    for paths, is_folded in ((("a.jsonl",), True), (("a.jsonl", "b.jsonl"), False)):
        written("check", *paths)
        assert ("<summary>Findings and sums" in page()) is is_folded
        assert ("Re-billed, no certain cause" in page()) is not is_folded


def test_sessions_carry_project_and_causes_for_filters():
    session(
        "home/.claude/projects/-w/a.jsonl", growing(9, falls=(4,)), minutes=[n * 61 for n in range(9)], project="/w/a"
    )
    session("home/.claude/projects/-w/b.jsonl", growing(3), project="/w/b")
    for arguments, lead in (
        (("--since", "2020-01-01"), "<b>Do first:</b> /compact before a pause, or begin a new session ($"),
        (("check", "home/.claude/projects"), "Re-billed as waste: 0 tokens"),
    ):
        written(*arguments)
        assert f'<p class="lead">{lead}' in page(), "each sentence is a line of its own"
        rows = {row["data-project"]: row["data-cause"] for row in Read(page()).rows}
        assert set(rows) == {"/w/a", "/w/b"}
        assert "LORE128" in rows["/w/a"].split()
        assert rows["/w/b"] == ""
        assert '<option value="LORE128">LORE128 pauses longer than the cache lives' in page()


def test_cost_is_drawn_by_day_week_and_month():
    for day in (0, 1, 40):
        session(f"home/.claude/projects/-w/{day}.jsonl", growing(2), minutes=[day * 1440, day * 1440 + 1])
    written("--since", "2020-01-01")
    text = Read(page()).text
    for name, first, last in (("day", "2026-01-01", "2026-02-10"), ("week", "week of 2025-12-29", "week of 2026-02-09"),
                              ("month", "2026-01: $", "2026-02: $")):  # fmt: skip
        part = text.partition(f"By {name}")[2]
        assert part.index(first) < part.index(last)


def test_small_causes_of_a_page_are_one_row():
    causes = [
        SpendingCause(code=code, name="x", kind="waste", actor="user", names=[], lifetime=None, sessions=1, turns=2,
                      tokens=100, dollars=dollars, says=code, fix="", command="")
        for code, dollars in (("A", 9.0), ("B", 0.01), ("C", 0.02))
    ]  # fmt: skip
    table = causes_block(causes).table
    assert table is not None
    assert [row[0] for row in table.rows] == ["$9.00", "$0.03"]
    assert table.rows[1][:4] == ("$0.03", "200", "4", "2 other causes, each less than 1 %")


def test_week_with_unknown_cost_costs_at_least():
    days = [replace(Sums().result(f"2026-01-{day:02}"), dollars=2.0, unpriced=day == 5) for day in (5, 6, 12)]
    weeks = [block for block in period_blocks(days) if block.title == "By week"]
    assert [bar.label for bar in weeks[0].bars] == ["week of 2026-01-05: at least $4.00", "week of 2026-01-12: $2.00"]


def test_day_without_known_price_does_not_cost_nothing():
    days = [replace(Sums().result(f"2026-01-0{day}"), dollars=dollars) for day, dollars in ((1, None), (2, 2.0))]
    labels = [bar.label for bar in next(period_blocks(days)).bars]
    assert labels == ["2026-01-01: no known price", "2026-01-02: $2.00"]


def test_sentence_keeps_the_case_of_units():
    spending = replace(
        Sums().result("all"), requests=1, dollars=2.0, absent_subagents=2, absent_subagent_tokens=4_200_000
    )
    assert "Not in the cost: 2 subagents whose logs were not read (4.2M tokens)." in describe_spending(spending)


@pytest.mark.parametrize(("args", "says"), [
    (("check", "a.jsonl", "--report", "html=a.jsonl"), "is a file"),
    (("check", "a.jsonl", "--report", "html=b.html"), "is a recording"),
    (("check", "a.jsonl", "--report", "html=none/x.html"), "there is no folder"),
    (("check", "a.jsonl", "--report", "html=own"), "is not lore's"),
    (("lint", "b.html", "--report", "html=own"), "is not lore's"),
    (("check", "a.jsonl", "--report", "html="), "names no file"),
    (("check", "a.jsonl", "--report", "html", "--report", "terminal"), "cannot share"),
    (("simulate", "a.jsonl", "--report", "html", "--json"), "cannot share"),
    (("simulate", "a.jsonl", "--report", "junit"), "writes html alone"),
    (("compact", "a.jsonl", "--report", "html=x.html"), "add --dry-run"),
    (("--report", "html=x.html", "check", "a.jsonl"), "--report belongs after the command"),
])  # fmt: skip
def test_refused_target_replaces_nothing(args, says):
    session("a.jsonl", growing(3))
    session("b.html", growing(3))
    Path("own").mkdir()
    Path("own/index.html").write_text("mine")
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    ran = lore(*args)
    assert ran.code == 2
    assert says in ran.err
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before


def test_page_folder_may_end_with_equals_sign():
    ran = lore("check", session("a.jsonl", growing(3)), "--report", "html=run=")
    assert ran.code == 0, ran.err
    assert Path("run=/index.html").is_file()


@pytest.mark.parametrize("command", ["check", "simulate"])
def test_input_that_is_read_once_has_no_page(command):
    ran = lore(command, "-", "--report", "html=x.html", stdin=Path(session("a.jsonl", growing(3))).read_bytes())
    assert ran.code == 2
    assert "once" in ran.err
    assert not Path("x.html").exists()


def test_open_keeps_page_in_private_cache_folder(monkeypatch):
    session("a.jsonl", growing(3))
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    assert lore("simulate", "a.jsonl", "--open").code == 0
    place = Path("home/.cache/lore/pages/simulate.html").absolute()
    assert opened == [place.as_uri()]
    assert place.parent.stat().st_mode & 0o077 == 0
    monkeypatch.setattr("webbrowser.open", lambda url: False)
    ran = lore("simulate", "a.jsonl", "--report", "html=x.html", "--open")
    assert "no browser could be opened" in ran.err


def test_text_of_recording_is_escaped_and_visible():
    session("a.jsonl", FALLEN, words=HOSTILE, project=f"/w/{HOSTILE}", model="m<b>")
    bodies("b.jsonl", f"{HOSTILE} 1", f"{HOSTILE} 2")
    for name in ("a.jsonl", "b.jsonl"):
        written("check", name, code=(0, 1, 3))
        made = page()
        found = Read(made)
        assert not set(found.tags) & {"img", "link", "iframe", "b<"}
        assert found.tags.count("script") == len(re.findall("sha256-[^ ;]*", made.partition("script-src ")[2][:400]))
        assert not any("javascript" in link for link in found.links)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", made)
        assert "{{7*7}}" in found.text or name == "a.jsonl"
    assert "<U+202E>" in Read(page()).text


def test_credentials_are_masked_on_page():
    secret = "sk-ant-" + "a1B2" * 10
    bodies("b.jsonl", f"key {secret} 1", f"key {secret} 2")
    written("check", "b.jsonl")
    assert secret[8:] not in page()
    assert "sk-a***" in page()


@pytest.mark.parametrize("command", ["check", "simulate"])
def test_redact_leaves_no_word_of_recording(command):
    canary = "canarybird"
    session("a.jsonl", FALLEN, words=canary, project=f"/w/{canary}", agent=canary)
    bodies("b.jsonl", f"{canary} 1", f"{canary} 2")
    for name in ("a.jsonl", "b.jsonl"):
        written(command, name, "--redact")
        assert canary not in page()
        written(command, name, "--redact", path=f"{name}-pages")
        assert not any(canary in path.read_text() for path in Path(f"{name}-pages").rglob("*.html"))
        assert "sha256 " in page() or "#" in page()


def test_redact_holds_for_bare_lore(monkeypatch):
    monkeypatch.setattr("lore.commands.pages.IN_FULL", 1)
    session("home/.claude/projects/-w/b.jsonl", growing(2), words="canarybird", project="/w/canarybird")
    session("home/.claude/projects/-w/a.jsonl", FALLEN, project="/w/canarybird")
    ran = written("--since", "2020-01-01", "--redact", "--by", "project")
    assert "canarybird" not in ran.out + page()
    assert "canarybird" in lore("--since", "2020-01-01", "--by", "project").out


def test_damaged_recording_has_page():
    session("logs/a.jsonl", growing(3))
    Path("logs/b.jsonl").write_bytes(Path("logs/a.jsonl").read_bytes()[:-40] + b"\n{broken\n")
    written("check", "logs", path="out", code=(1, 3))
    assert page("out/index.html").count('href="sessions/') == 2


def test_policy_allows_only_own_style_and_script():
    session("a.jsonl", growing(2))
    written("check", "a.jsonl")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page())[1].replace("&#39;", "'")
    style, script = (
        re.search(f"<{name}>(.*?)</{name}>", page(), re.DOTALL)[1].encode() for name in ("style", "script")
    )
    style_digest, script_digest = (base64.b64encode(hashlib.sha256(text).digest()).decode() for text in (style, script))
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{style_digest}'; script-src 'sha256-{script_digest}'; base-uri 'none'; "
        "form-action 'none'"
    )


def test_lead_of_findings_has_sums_without_grounds():
    session("a.jsonl", FALLEN)
    session("b.jsonl", FALLEN)
    assert "; ruled out in each: " in lore("check", "a.jsonl", "b.jsonl").out
    written("check", "a.jsonl", "b.jsonl")
    leads = re.findall('<p class="lead">(.*?)</p>', page())
    assert any("no certain cause" in lead for lead in leads)
    assert not any("ruled out" in lead for lead in leads)
