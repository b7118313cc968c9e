"""The status line: its parts, width and colours, and nothing that a terminal or tmux would obey."""

from hypothesis import given
from hypothesis import strategies as st

from helpers.each import each
from lore.model.running import LastBreak, RunningTotals
from lore.report.status_line import DEFAULT, NOTHING, PARTS, ClientStatus, LineFacts, columns, status_line

NOW = 1_000_000.0
BREAK = LastBreak("LORE114", "waste", 7, NOW - 720, 45_000, 0.9, 'hook "Edit" adds text', "a hook adds text", "drop it")
RUNNING = RunningTotals(
    "claude-code", model="claude-opus-5", turn=9, used_at=NOW - 48, prompt_tokens=182_000, read_tokens=178_400,
    lifetime=300.0, billed=True, requests=9, breaks=1, paid_again_tokens=45_000, paid_again_dollars=1.2,
    rebilled_dollars=1.2,
    last_break=BREAK,
)  # fmt: skip


def line(running=RUNNING, client=None, parts=DEFAULT, width=None, colour=False, **more):
    return status_line(LineFacts(running, client or ClientStatus(), NOW, **more), parts, width=width, colour=colour)


def test_line_shows_all_default_parts():
    assert line() == (
        'prompt 182k · read 98 % · re-billed 45k ($1.20) · cache 4:12 · last break 12 min ago: hook "Edit" adds text'
    )


@each("change, part, text", [
    ({"used_at": NOW - 301}, "expires", "cache expired 1 s ago"),
    ({"used_at": NOW - 8000}, "expires", "cache expired 2 h ago"),
    ({"lifetime": 86_400.0, "billed": False}, "expires", "cache about 23:59:12"),
    ({"lifetime": None}, "expires", "cache lifetime unknown"),
    ({"last_break": None}, "break", "no break"),
    ({"last_break": BREAK._replace(at=None)}, "break", 'last break turn 7: hook "Edit" adds text'),
    ({"last_break": BREAK._replace(at=NOW + 9)}, "break", 'last break turn 7: hook "Edit" adds text'),
    ({"paid_again_tokens": 0, "rebilled_dollars": 0.0}, "again", "re-billed 0"),
    ({"rebilled_dollars": None, "unexplained_tokens": 144_000, "expected_tokens": 9}, "again", "re-billed 189k"),
    ({"prompt_tokens": 999_600}, "prompt", "prompt 1.0M"),
    ({"prompt_tokens": 999_400}, "prompt", "prompt 999k"),
    ({"read_tokens": 181_999}, "read", "read 99 %"),
    ({"read_tokens": 0}, "read", "read 0 %"),
    ({"read_tokens": 3}, "read", "read <1 %"),
    ({"read_tokens": None}, "read", NOTHING),
    ({}, "model", "claude-opus-5"),
    ({}, "cost", NOTHING),
])  # fmt: skip
def test_part_shows_what_is_known(change, part, text):
    assert line(RUNNING._replace(**change), parts=(part,)) == text


def test_figures_of_the_client_are_shown():
    client = ClientStatus("Opus 5", 4.178, 21.4, NOW + 90)
    assert (
        line(client=client, parts=("model", "cost", "context", "expires"))
        == "Opus 5 · $4.18 · context 21 % · cache 1:30"
    )


def test_unjudged_log_is_named_as_such():
    client = ClientStatus(prompt_tokens=200_000, read_tokens=0)
    assert line(client=client, pending="judging …") == (
        "prompt 200k · read 0 % · re-billed 45k ($1.20) · cache 4:12 · judging …"
    )
    assert line(None, client=client, pending="judging …") == "prompt 200k · read 0 % · judging …"
    assert line(None, pending="judging …", parts=("expires",)) == "judging …"
    assert line(None) == line(RunningTotals("")) == NOTHING


def test_redacted_line_names_nothing():
    said = line(client=ClientStatus("Opus 5"), parts=("model", "break"), redact=True)
    assert said == "last break 12 min ago: a hook adds text"


@each(range(1, 120))
def test_line_fits_any_width(width):
    assert 0 < columns(line(width=width)) <= width


def test_narrow_line_keeps_the_expiry_longest():
    assert line(width=70) == 'prompt 182k · read 98 % · cache 4:12 · last break 12 min ago: hook "E…'
    assert line(width=30) == "prompt 182k · cache 4:12"
    assert line(width=12) == "cache 4:12"
    assert line(width=5) == "cach…"


def test_parts_are_coloured_by_urgency():
    said = line(colour=True)
    assert "\x1b[32mread 98 %\x1b[0m" in said
    assert "\x1b[2mlast break 12 min" in said
    assert "\x1b[33mcache 0:59\x1b[0m" in line(RUNNING._replace(used_at=NOW - 241), colour=True)
    assert "\x1b[31mcache expired" in line(RUNNING._replace(used_at=NOW - 400), colour=True)


TEXTS = st.text("a[#\x1b\n\x9b\u202e\u200b\u0301模 ", max_size=60)


@given(TEXTS, TEXTS, st.integers(1, 90))
def test_hostile_names_stay_printable(name, words, width):
    hostile = RUNNING._replace(last_break=BREAK._replace(says=f"\x1b[2J#(reboot)#[fg=red]\n{words}"))
    said = line(hostile, ClientStatus(f"{name}\x07\u202e"), tuple(PARTS), width)
    assert said.isprintable()
    assert "#" not in said
    assert columns(said) <= width


def test_wide_characters_count_twice():
    assert columns("模型 e\u0301") == 6
    assert columns(line(client=ClientStatus("模型" * 20), parts=("model",), width=11)) <= 11
