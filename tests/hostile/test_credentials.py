"""Every kind of credential, at every place of a recording, through every command and report that shows that place.

In a recording of several requests the credential changes, in its middle or whole: the text shown around the change may
hold neither the old nor the new one, however they are spelled.
"""

import base64
import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from cli.running import lore
from helpers.credentials import SAMPLES, Sample
from hostile.planting import COMMANDS, PLACES, planted, put, shown

PIECE = 8  # characters of a credential that may not be shown


class Spelled(NamedTuple):
    """A text with a credential, and the pieces of it that must not be shown."""

    text: str
    pieces: tuple[str, ...]


def pieces(secret: str) -> tuple[str, ...]:
    hidden = secret[4:] if len(secret) > 12 else secret
    return tuple(hidden[at : at + PIECE] for at in range(max(1, len(hidden) - PIECE + 1)))


def _plain(sample: Sample) -> Spelled:
    return Spelled(sample.text, pieces(sample.secret))


def _quoted(sample: Sample) -> Spelled:
    """As text of JSON in which it is a value: a result that a tool printed."""
    return Spelled(json.dumps({"env": {"value": sample.text}}), pieces(sample.secret))


def _escaped(sample: Sample) -> Spelled:
    """As text of JSON that spells every second character, and slashes, by escapes."""
    spelled = [f"\\u{ord(char):04x}" if at % 2 else json.dumps(char)[1:-1] for at, char in enumerate(sample.text)]
    at = sample.text.index(sample.secret)
    hidden = spelled[at + 4 : at + len(sample.secret)]
    pieces = tuple("".join(hidden[at : at + 6]) for at in range(max(1, len(hidden) - 5)))
    return Spelled('{"a":"' + "".join(spelled).replace("/", "\\/") + '"}', pieces)


def _encoded(sample: Sample) -> Spelled:
    """Return it as base64; one or two characters next to the credential may be shown."""
    at = sample.text.index(sample.secret)
    text = base64.b64encode(f"{sample.text} ".encode()).decode()
    hidden = text[(at + 4) * 4 // 3 + 4 : (at + len(sample.secret)) * 4 // 3 - 1]
    return Spelled(text, tuple(hidden[at : at + PIECE] for at in range(len(hidden) - PIECE + 1)))


SPELLED: dict[str, Callable[[Sample], Spelled]] = {
    "plain": _plain, "in JSON": _quoted, "by escapes": _escaped, "in base64": _encoded,
}  # fmt: skip


def _in_its_middle(sample: Sample) -> Sample:
    half = len(sample.secret) // 2
    return _with(sample, sample.secret[:half] + sample.secret[: half - 1 : -1])


def whole(sample: Sample) -> Sample:
    return _with(sample, sample.secret[:6] + sample.secret[:5:-1])


def _with(sample: Sample, secret: str) -> Sample:
    return Sample(sample.text.replace(sample.secret, secret), secret)


_KINDS = list(SAMPLES)


def _cases() -> Iterator[object]:
    """Each place with each spelling: every kind there, by commands in turn. One kind at each place runs always."""
    for number, place in enumerate(PLACES):
        for at, spelled in enumerate(SPELLED):
            if at == number % len(SPELLED):
                kind = _KINDS[number * 7 % len(_KINDS)]
                yield pytest.param(place, spelled, [kind], id=f"{place}, {spelled}, {kind}")
            yield pytest.param(place, spelled, _KINDS, id=f"{place}, {spelled}", marks=pytest.mark.soak)


@pytest.mark.parametrize(("place", "spelled", "kinds"), [*_cases()])
def test_no_credential_is_shown(place, spelled, kinds, tmp_path, monkeypatch):
    """42 of 66 kinds were, and of a known one that changed the piece around the change."""
    at = PLACES[place]
    commands = [name for name, command in COMMANDS.items() if command.of in ("", at.recording)]
    monkeypatch.setenv("HOME", "home")
    monkeypatch.setattr("time.sleep", _interrupted)
    for number, kind in enumerate(kinds):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        command = commands[(number + list(SPELLED).index(spelled) * 23 + len(place)) % len(commands)]
        changed = (_in_its_middle, whole)[number % 2](SAMPLES[kind])
        texts = SPELLED[spelled](SAMPLES[kind]), SPELLED[spelled](changed)
        if not _can_stand(place, texts[0].text):
            continue
        said = shown(COMMANDS[command], put(planted(at, (texts[0].text, texts[1].text))))
        once = said.replace("\\\\", "\\").replace("\\\\", "\\")
        leaks = [piece for text in texts for piece in text.pieces if piece in said or piece in once]
        assert not leaks, f"{kind} by `{command}`: {leaks[0]} in {_around(once, leaks[0])}"


def _can_stand(place: str, text: str) -> bool:
    """Return whether a text may be the name of a file, or of a host, which has no capitals."""
    return place != "host" and (place != "file name" or ("/" not in text and len(text.encode()) < 240))


def _interrupted(_: float) -> None:
    raise KeyboardInterrupt


def _around(text: str, piece: str) -> str:
    at = text.find(piece)
    return text[max(0, at - 200) : at + 100]


def test_unknown_word_is_masked_before_it_is_cut(tmp_path, monkeypatch):
    """A problem quoted sixty characters of it, and the beginning of a longer credential is not recognised."""
    monkeypatch.chdir(tmp_path)
    word = "x " * 15 + SAMPLES["digitalocean"].text
    records = [
        {
            "type": "user",
            "uuid": "a",
            "parentUuid": None,
            "sessionId": "s",
            "message": {"role": "user", "content": "go"},
        },
        {"type": word, "uuid": "b", "parentUuid": "a", "sessionId": "s"},
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    ran = lore("check", "log.jsonl", "--json", "--format", "claude-code")
    assert "unknown record type" in ran.out
    assert not [piece for piece in pieces(SAMPLES["digitalocean"].secret) if piece in ran.out + ran.err]


def shows(sample: Sample, said: str) -> list[str]:
    return [piece for piece in pieces(sample.secret) if piece in said]
