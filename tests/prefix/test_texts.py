"""How one text became another: spelling, and words that vary."""

import pytest

from helpers.each import each
from lore.prefix.texts import SearchBudget, explain_text, find_gaps, name_text_spelling, name_value_spelling
from lore.prefix.volatile import find_varying_text
from model.making import assistant, body, dumps
from prefix.pairs import codes, explain, model, tool_result, tool_use, user

PLAIN = "if a < b && c > 'd':\n    say(\"yes\")\n"
ENTITIES = "if a &lt; b &amp;&amp; c &gt; &#39;d&#39;:\n    say(&quot;yes&quot;)\n"


@each("previous, current, spelling", [
    (PLAIN, ENTITIES, "entities"),
    (ENTITIES, ENTITIES.replace("&", "&amp;"), "entities"),  # escaped twice
    ("it's", "it&#39;s", "entities"),
    ("it&#39;s", "it&#x27;s", "entities"),
    ("a < b\r\n", "a &lt; b\n", "entities"),
    ("one\r\ntwo", "one\ntwo", "newlines"),
    ("caf\u00e9", "cafe\u0301", "unicode"),
    ("one  \ntwo", "one\ntwo\n", "white-space"),
    ('{"a": 1}', '{"a":1}', "inner-json"),
    ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}', "inner-order"),
])  # fmt: skip
def test_equal_texts_have_a_spelling(previous, current, spelling):
    assert name_text_spelling(previous, current).spelling == spelling
    assert name_text_spelling(current, previous).spelling == spelling


@pytest.mark.parametrize(("previous", "current"), [
    ("a &lt; b", "a > b"), ("R&D", "R&B"), ("&copy right", "© right"), ("a &lt; b", "a < c"), ("a\n", "a\n"),
])  # fmt: skip
def test_equal_or_other_text_has_no_spelling(previous, current):
    assert name_text_spelling(previous, current) is None


def test_values_are_equal_if_all_their_texts_are():
    value = {"path": "a.py", "edits": [{"old": PLAIN, "n": 1}]}
    assert name_value_spelling(dumps(value), dumps({**value, "edits": [{"old": ENTITIES, "n": 1}]})).code == "LORE106"
    for changed in ({**value, "path": "b.py"}, {**value, "edits": [{"old": ENTITIES, "n": 2}]}, value):
        assert name_value_spelling(dumps(value), dumps(changed)) is None


@each([
    lambda words: body(words, assistant("yes"), "go on"),
    lambda words: body("do it", assistant(words), "go on"),
    lambda words: body("do it", model(tool_use({"command": words})), user(tool_result("done")), assistant("yes")),
    lambda words: body("do it", model(tool_use()), user(tool_result(words)), assistant("yes")),
    lambda words: body("do it", tools=[{"name": "a", "description": words, "input_schema": {}}]),
    lambda words: body("do it", system=words),
])  # fmt: skip
def test_entities_anywhere_are_spelling(write):
    """A proxy that escaped HTML was reported as rewritten history."""
    (cause,) = explain(write(PLAIN), write(ENTITIES))
    assert (cause.code, cause.evidence.spelling) == ("LORE106", "entities")


CHANGED_WORDS = [
    ("Today is 2026-01-01.", "Today is 2026-01-02.", "LORE101"),
    ("At 2026-01-01T10:00:00Z now", "At 2026-01-01T10:00:01.123+01:00 now", "LORE101"),
    ("It is Monday", "It is Tuesday", "LORE101"),
    ("Jan 3, 2026", "February 14, 2026", "LORE101"),
    ("on 1/2/2026 we", "on 12/31/26 we", "LORE101"),
    ("at 9:05 AM sharp", "at 11:45 PM sharp", "LORE101"),
    ("now 1767225600.", "now 1767225601000.", "LORE101"),
    ("Today:\nMonday", "Today:\nFriday", "LORE101"),
    ("- campaign (snapshot 4m old)", "- campaign (snapshot 12m old)", "LORE101"),
    ("synced 59 min ago", "synced 2h ago", "LORE101"),
    ("<uptime>3 minutes</uptime>", "<uptime>5 minutes</uptime>", "LORE101"),
    ("Clock:\t10:30", "Clock:\t10:31", "LORE101"),
    ("on 22 November 2026 we", "on 23 November 2026 we", "LORE101"),
    ("Heute ist Samstag, der 21. November 2026.", "Heute ist Sonntag, der 22. November 2026.", "LORE101"),
    ("Nous sommes le 1er décembre 2026.", "Nous sommes le 2 décembre 2026.", "LORE101"),
    ("今日は2026年11月21日です。", "今日は2026年11月22日です。", "LORE101"),
    ("[21/Nov/2026:18:54:40 +0000] begun", "[21/Nov/2026:18:54:41 +0000] begun", "LORE101"),
    ("Stand: 1830 Uhr", "Stand: 1845 Uhr", "LORE101"),
    ("Tokens so far: 12031", "Tokens so far: 15400", "LORE109"),
    ("Context used: 3%", "Context used: 7%", "LORE109"),
    ("Messages in this chat: 12", "Messages in this chat: 14", "LORE108"),
    ("There are 12 rules.", "There are 13 rules.", "LORE100"),
    ("Use version 1.2.3 of it.", "Use version 1.2.4 of it.", "LORE100"),
]


@each("previous, current, code", CHANGED_WORDS)
def test_changed_words_are_named_by_form_or_label(previous, current, code):
    assert codes(body("x", system=previous), body("x", system=current)) == [code]


@pytest.mark.parametrize("filler", ["Be brief and exact, please. ", "word "])
def test_clock_in_a_very_long_line_is_named(filler):
    line = "You are an agent. It is 09:{}. " + filler * 4000
    assert [reason.code for reason in explain_text(line.format(14), line.format(15), SearchBudget())] == ["LORE101"]


def test_documents_in_one_line_are_memory():
    """Where the heading was over 4,000 characters before, a change was named a change without a reason, which led."""
    texts = [
        "\n# Retrieved documents\n" + "".join(f"{word} is {chr(97 + n) * 300}. " for n in range(20))
        for word in ("One", "Two")
    ]
    assert [reason.code for reason in explain_text(*texts, SearchBudget())] == ["LORE126"]


def test_label_of_line_names_later_parts():
    """The first fact to change was memory, later ones a change without a reason."""
    texts = [f"Memory: tabs | short names{more}" for more in ("", " | no comments")]
    assert [reason.code for reason in explain_text(*texts, SearchBudget())] == ["LORE126"]


def test_cause_that_is_first_in_a_text_leads():
    texts = [f"# Memory\nThe user likes {word}.\n\n# Rules\n{'Be brief.' * 99}\nUse {word}.\n" for word in ("a", "b")]
    assert codes(*(body("x", system=words) for words in texts)) == ["LORE126", "LORE100"]


def test_gaps_lie_between_equal_members():
    gaps = find_gaps("abcdef", "abXdeYf")
    assert [("abcdef"[gap.previous], "abXdeYf"[gap.current]) for gap in gaps] == [("c", "X"), ("", "Y")]
    assert [gap.current for gap in find_gaps("ab", "abc", can_grow=True)] == [slice(2, 3)]
    assert [find_gaps(*texts)[-1].reaches_end for texts in (("abc", "axc"), ("abc", "axd"))] == [False, True]


def test_repeated_reason_keeps_its_first_place():
    day = "Today's date: 2026-07-{}"
    texts = [
        "\n".join((day.format(n), "The same.", word, "And this.", day.format(n + 1)))
        for n, word in ((1, "a"), (3, "b"))
    ]
    assert [reason.code for reason in explain_text(*texts, SearchBudget())] == ["LORE101", None]


@each("text, kinds", [
    ("Today's date: 2026-07-14", ["date"]),
    ("Current date: 2026-07-14T08:03:19Z", ["clock"]),
    ('{"date": "2026-07-14"}', ["date"]),
    ("Released on 2026-07-14.", []),
    ("Write dates like this: 2026-07-14, and say the date.", []),
    ('Save "the meeting is at 2:30pm today" as a note.', []),
    ("<examples>\nuser: which date?\nassistant: the date is 2026-03-05\n</examples>", []),
    ("<cwd>/home/ann/x</cwd>", ["directory"]),
    ("Current working directory is /srv/app", ["directory"]),
    ('{"cwd": "C:\\\\Users\\\\ann"}', ["directory"]),
    ("Choose whether the workspace is long-term or read/write.", []),
    ("cwd: the folder in which the command runs", []),
    ("session_id=ab12cd34", ["id"]),
    ("the id 0b0c7f6e-3c1a-4a60-9d0e-1f2a3b4c5d6e", ["id"]),
    ("session id: required", []),
    ("tool toolu_012345678 of claude-sonnet-4-20250514", []),
    ("/tmp/lore-4711/x", ["temporary-path"]),
    ("write to /tmp/out.txt", []),
    ("pid: 4711", ["process-id"]),
    ("the server is at localhost:8080", []),
    ("1,200 tokens left", ["token-count"]),
    ("On branch main\nnothing to commit, working tree clean", ["repository"]),
    ("Use git status before a commit.", []),
    ("", []),
    ("x " * 40_000 + "pid: 4711", []),  # beyond the part that is searched
])  # fmt: skip
def test_varying_text_has_its_kind(text, kinds):
    assert [word.kind for word in find_varying_text(text)] == kinds


@each("text, words", [
    ("Today's date: 25 February 2026", ["25 February 2026"]),
    ("Today's date: 3 de mayo de 2026", ["3 de mayo de 2026"]),
    ("The date is written in 1 main thread", []),
])  # fmt: skip
def test_date_holds_whole_name_of_its_month(text, words):
    assert [word.text for word in find_varying_text(text)] == words


@pytest.mark.parametrize(("description", "kinds"), [
    ('Schedules a prompt. "weekdays at 9am" is the time 0 9 * * 1-5.', []),
    ("Runs at a time such as 14:30 of the current day.", []),
    ("Takes a date and a time: 2026-01-31 18:00 is the last day.", []),
    ("Searches the web. Today's date is 2026-11-27.", ["date"]),
])  # fmt: skip
def test_date_in_a_tool_counts_as_current_only(description, kinds):
    assert [word.kind for word in find_varying_text(description, in_tool=True)] == kinds


SHUFFLED = (
    "- lint: run the linter\n- unit: run tests\n- docs: build pages",
    "- docs: build pages\n- lint: run the linter\n- unit: run tests",
)


@each("previous, current", [
    SHUFFLED,
    ("Tools: read, write, edit, bash.", "Tools: bash, edit, read, write."),
    ("# Memory\n- likes tea\n- lives in Bern\n", "# Memory\n- lives in Bern\n- likes tea\n"),
])  # fmt: skip
def test_shuffled_list_is_named_as_another_order(previous, current):
    (reason,) = explain_text(f"Intro.\n{previous}", f"Intro.\n{current}", SearchBudget())
    assert (reason.code, reason.what) == ("LORE100", "order")


def test_shuffled_list_with_another_entry_is_not_an_order():
    reasons = explain_text(SHUFFLED[0], SHUFFLED[1].replace("pages", "books"), SearchBudget())
    assert all(reason.what != "order" for reason in reasons)
