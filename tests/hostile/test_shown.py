"""Commands show a text at any place without invisible characters, and with `--redact` not at all.

A text is planted at each place of a recording in turn, and replaced by another one in mid-session.
"""

import re
from collections.abc import Iterator

import pytest

from hostile.planting import COMMANDS, PLACES, planted, put, shown

# Zero width, marks of direction, a byte order mark, letters that only tags show, a filler, a selector without a sign,
# controls of music and of hieroglyphs, ignorable and unassigned characters, terminal controls.
UNSEEN = (
    "\u200b\u2066\u202e\ufeff\u061c\U000e0001\U000e0041\u2060\u180e\u3164\U000e0101\u206a\ufff9\x9b"
    "\u2029\U0001d173\U00013430\ufff0\U000e0fff\x1b\x07\x08\x7f"
)
ODD = f"a{UNSEEN}b"
COLOURS = re.compile(r"\x1b\[[\d;]*m")  # of lore's own output with --color
CANARY = "zEiSiG"
# A command that shows the text of a place; None if lore does not keep it.
SHOWN_BY = dict.fromkeys(PLACES, "diff-prefix json") | {
    "file name": "check verbose", "answer": "fold json", "version": "check json", "folder": "simulate json",
    "lifetime": "check json", "host": "check json",
    **dict.fromkeys(["branch", "session id", "client", "said", "answer's id", "agent"], "fold json"),
    **dict.fromkeys(["time", "attachment", "id of a session", "summary"], "fold json"),
    **dict.fromkeys(["user", "project"], "store json"), "id of knowledge": "knowledge json",
    **dict.fromkeys(["part of a context", "sign"], "check json"),
    **dict.fromkeys([
        "parameter", "member of a body", "url", "request header", "name of a header", "response header", "request id",
        "error of a server", "context", "layer", "stop reason", "counter", "record type", "title",
    ]),
}  # fmt: skip


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """Work in an empty folder with an empty home, a new one for each call, without waiting."""
    monkeypatch.setattr("time.sleep", _interrupted)

    def stand(name: str = "first") -> None:
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.setenv("HOME", str(folder / "home"))

    stand()
    return stand


def _interrupted(_: float) -> None:
    raise KeyboardInterrupt


def _able(place: str, *, redacted: bool) -> list[str]:
    """Name the commands that read the recording of a place."""
    kinds = ("", PLACES[place].recording)
    return [name for name, one in COMMANDS.items() if one.of in kinds and (one.redacts or not redacted)]


def _cases(*, redacted: bool) -> Iterator[object]:
    """Each place with one command always, with all of them in a soak."""
    for number, place in enumerate(PLACES):
        able = _able(place, redacted=redacted)
        by = SHOWN_BY[place]
        name = by if number % 2 and by in able else able[number * 5 % len(able)]
        yield pytest.param(place, [name], id=f"{place}, {name}")
        yield pytest.param(place, able, id=f"{place}, every command", marks=pytest.mark.soak)


@pytest.mark.parametrize(("place", "names"), [*_cases(redacted=False)])
def test_nothing_invisible_is_shown(place, names, alone):
    for name in names:
        alone(name)
        said = COLOURS.sub("", shown(COMMANDS[name], put(planted(PLACES[place], (ODD, f"{ODD}{ODD}")))))
        assert [hex(ord(char)) for char in UNSEEN if char in said] == [], name


@pytest.mark.parametrize(("place", "names"), [*_cases(redacted=True)])
def test_redact_shows_nothing_of_the_recording(place, names, alone):
    for name in names:
        alone(name)
        file = put(planted(PLACES[place], (f"{CANARY} one", f"{CANARY} other")))
        said = shown(COMMANDS[name], file, "--redact")
        assert CANARY.lower() not in said.replace(file, "").lower(), name


@pytest.mark.parametrize("place", [place for place, name in SHOWN_BY.items() if name is not None])
def test_planted_text_is_shown_without_redact(place):
    """The text searched for in redacted output is found in other output."""
    file = put(planted(PLACES[place], (f"{CANARY} one", f"{CANARY} other")))
    assert CANARY.lower() in shown(COMMANDS[SHOWN_BY[place] or ""], file).lower()
