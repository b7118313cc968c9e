"""`--report html=PATH`: what is written where, what is in it, and what of a recording never is."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cli.running import lore
from lore.report.html.page import assets
from pages.sessions import HOSTILE, bodies, growing, session

FALLEN = growing(12, falls=(6,))


class Read(HTMLParser):
    """The tags of a page, its links and its text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.links, self.ids, self.attributes, self.text = [], [], [], set(), ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        given = dict(attrs)
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


def test_one_page_holds_the_session_and_nothing_that_is_asked_for():
    session("a.jsonl", FALLEN)
    ran = written("check", "a.jsonl")
    assert "page.html: 0.0" in ran.err
    assert "1 cache break" in ran.out
    found = Read(page())
    assert all(re.fullmatch(r"#[rb][\w-]+", link) and link[1:] in found.ids for link in found.links)
    assert not found.attributes & {"style", "onload", "onclick"}
    assert not set(found.tags) & {"img", "link", "iframe", "object", "form", "base", "image", "use", "foreignobject"}
    assert "$" in found.text
    assert "turn 7" in found.text


def test_what_bytes_differ_stands_before_and_after_side_by_side():
    bodies("b.jsonl", "You help. It is Monday, 2026-01-01.", "You help. It is Monday, 2026-01-02.")
    written("check", "b.jsonl")
    assert re.search(r"<pre>.{0,90}2026-01-0<mark>1.*?</pre>.*?<pre>.{0,90}2026-01-0<mark>2", page(), re.DOTALL)
    assert "they part at system[0].text" in page()


def test_a_folder_has_an_index_and_a_page_for_each_session():
    for name in ("a", "b", "c"):
        session(f"logs/{name}.jsonl", FALLEN if name == "b" else growing(3))
    written("check", "logs", path="out")
    index = Read(page("out/index.html"))
    links = [link for link in index.links if link.startswith("sessions/")]
    assert len(links) == 3
    assert sorted(Path("out/sessions").iterdir()) == sorted(Path("out", link) for link in links)
    first = page(f"out/{links[0]}")  # the session that lost most
    assert "<h1>question 0</h1>" in first
    assert "logs/b.jsonl" in first
    assert '<a href="../index.html">' in first
    assert {link for link in index.links if not link.startswith(("sessions/", "#"))} == {"lore.css"}
    assert "../lore.css" in Read(first).links
    assert "<style" not in first
    again = {path: path.read_bytes() for path in Path("out").rglob("*.*")}
    assert Path("out/lore.css") in again
    written("check", "logs", path="out/")
    assert {path: path.read_bytes() for path in Path("out").rglob("*.*")} == again


def test_a_folder_of_a_command_without_sessions_is_an_index_alone():
    bodies("b.jsonl", "You help. " * 400)
    written("lint", "b.jsonl", path="out")
    assert sorted(path.name for path in Path("out").rglob("*")) == ["index.html", "lore.css"]
    text = Read(page("out/index.html")).text
    assert text.index("Findings") < text.index("Requests (1)")
    written("lint", "b.jsonl")
    assert "<style" in page()
    assert "what a cache would keep" in page()


def test_the_page_of_a_session_says_what_the_size_of_its_context_cost_before_what_was_predicted():
    session("long.jsonl", [(10, 8_000 * number, 8_000, 100) for number in range(40)], words=" and so on" * 3_000)
    written("simulate", "long.jsonl")
    text = Read(page()).text
    assert re.search(r"Compacted before 200k, the session would have cost about \$[\d.]+ \(\d\d%\) less", text)
    assert "lore compact long.jsonl --dry-run --window 200000" in text
    assert text.index("Where the money went") < text.index("the size of its context") < text.index("Predicted and")
    session("short.jsonl", growing(5))
    written("simulate", "short.jsonl")
    assert "the size of its context" not in Read(page()).text


def test_one_page_of_many_sessions_holds_those_that_lost_most_and_lists_all(monkeypatch):
    monkeypatch.setattr("lore.run.html_report.WHOLE", 2)
    for number in range(5):
        session(f"logs/{number}.jsonl", growing(5 + number, falls=(4,)))
    written("check", "logs")
    found = Read(page())
    assert found.tags.count("article") == 2
    assert all(f"{number}.jsonl" in found.text for number in range(5))
    assert "3 sessions stand in the list alone" in found.text
    assert len(found.ids) == len(set(found.ids))
    assert {link[1:] for link in found.links} <= set(found.ids)


def test_bare_lore_and_compact_write_pages_too():
    session("home/.claude/projects/-w/a.jsonl", growing(30, falls=(9,)))
    ran = written("--since", "2020-01-01")
    assert "~/.claude" in ran.out
    assert "What agents spent" in page()
    assert "a.jsonl" in page()
    written("compact", "home/.claude/projects/-w/a.jsonl", "--dry-run", "--window", "20000", path="c.html")
    assert "Compacting this session" in page("c.html")
    assert 'class="plot"' in page("c.html")
    written("--since", "2020-01-01", path="over")
    assert page("over/index.html").count('href="sessions/') == 1


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("check", "a.jsonl", "--report", "html=a.jsonl"), "is a file"),
        (("check", "a.jsonl", "--report", "html=b.html"), "is a recording"),
        (("check", "a.jsonl", "--report", "html=none/x.html"), "there is no folder"),
        (("check", "a.jsonl", "--report", "html=own"), "is not lore's"),
        (("lint", "b.html", "--report", "html=own"), "is not lore's"),
        (("check", "a.jsonl", "--report", "html=styled"), "is not lore's"),
        (("check", "a.jsonl", "--report", "html="), "names no file"),
        (("check", "a.jsonl", "--report", "html", "--report", "terminal"), "cannot share"),
        (("simulate", "a.jsonl", "--report", "html", "--json"), "cannot share"),
        (("simulate", "a.jsonl", "--report", "junit"), "writes html alone"),
        (("compact", "a.jsonl", "--report", "html=x.html"), "add --dry-run"),
        (("--report", "html=x.html", "check", "a.jsonl"), "--report stands behind the command"),
    ],
)
def test_what_cannot_be_written_is_refused_and_nothing_is_replaced(args, says):
    session("a.jsonl", growing(3))
    session("b.html", growing(3))
    Path("own").mkdir()
    Path("own/index.html").write_text("mine")
    Path("styled").mkdir()
    Path("styled/lore.css").write_text("p { color: red }")
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    ran = lore(*args)
    assert ran.code == 2
    assert says in ran.err
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("command", ["check", "simulate"])
def test_what_can_be_read_once_only_has_no_page(command):
    ran = lore(command, "-", "--report", "html=x.html", stdin=Path(session("a.jsonl", growing(3))).read_bytes())
    assert ran.code == 2
    assert "once" in ran.err
    assert not Path("x.html").exists()


def test_open_keeps_the_page_in_the_cache_folder_for_its_owner_and_opens_it(monkeypatch):
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


def test_no_text_of_a_recording_is_markup_and_no_control_character_stands_in_a_page():
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


def test_no_credential_stands_in_a_page():
    secret = "sk-ant-" + "a1B2" * 10
    bodies("b.jsonl", f"key {secret} 1", f"key {secret} 2")
    written("check", "b.jsonl")
    assert secret[8:] not in page()
    assert "sk-a***" in page()


@pytest.mark.parametrize("command", ["check", "simulate"])
def test_redact_leaves_no_word_of_a_recording(command):
    canary = "canarybird"
    session("a.jsonl", FALLEN, words=canary, project=f"/w/{canary}", agent=canary)
    bodies("b.jsonl", f"{canary} 1", f"{canary} 2")
    for name in ("a.jsonl", "b.jsonl"):
        written(command, name, "--redact")
        assert canary not in page()
        written(command, name, "--redact", path=f"{name}-pages")
        assert not any(canary in path.read_text() for path in Path(f"{name}-pages").rglob("*.html"))
        assert "sha256 " in page() or "#" in page()


def test_redact_holds_for_bare_lore_too():
    session("home/.claude/projects/-w/a.jsonl", FALLEN, project="/w/canarybird")
    ran = written("--since", "2020-01-01", "--redact", "--by", "project")
    assert "canarybird" not in ran.out + page()
    assert "canarybird" in lore("--since", "2020-01-01", "--by", "project").out


def test_a_damaged_recording_has_a_page_that_says_so():
    session("logs/a.jsonl", growing(3))
    Path("logs/b.jsonl").write_bytes(Path("logs/a.jsonl").read_bytes()[:-40] + b"\n{broken\n")
    written("check", "logs", path="out", code=(1, 3))
    assert page("out/index.html").count('href="sessions/') == 2


def test_the_policy_of_a_page_allows_its_own_style_and_scripts_alone():
    made = assets(sorts=True, zooms=True)
    directives = dict(each.split(" ", 1) for each in made.policy.split("; "))
    assert directives["default-src"] == "'none'"
    assert directives["script-src"].count("sha256-") == len(made.scripts) == 3
    assert "unsafe" not in made.policy
    assert json.dumps(made.policy).isascii()
    beside = assets(sorts=True, zooms=True, loads=True)
    assert beside.style == ""
    assert beside.policy == made.policy.replace(directives["style-src"], "'self'")
