"""`--redact` over captures of every kind, whole and damaged: headers, addresses, metadata, bodies kept as text."""

from __future__ import annotations

import copy
import io
import json
import zipfile

import pytest
import yaml

from cli.running import put
from cli.test_redact import CANARY, HOW, outputs, places, planted
from helpers.matrix import crossed
from hostile import captured

EVERY = 240  # with 3 this takes minutes, and finds nothing either
TEXT, LINES = "a text of JSON", "lines of JSON"


def opened(value):
    """Return a value with the JSON texts in it as values, so that a canary can be planted in them."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return {TEXT: opened(json.loads(value))}
        except ValueError:
            return value
    if isinstance(value, dict):
        return {key: opened(one) for key, one in value.items()}
    return [opened(one) for one in value] if isinstance(value, list) else value


def closed(value):
    """Return what `opened` had."""
    if isinstance(value, dict):
        return json.dumps(closed(value[TEXT])) if TEXT in value else {key: closed(one) for key, one in value.items()}
    return [closed(one) for one in value] if isinstance(value, list) else value


def read(format, data):
    if format.startswith("vcr"):
        return opened(yaml.safe_load(data))
    if format == "eval":
        archive = zipfile.ZipFile(io.BytesIO(data))
        return {name: opened(json.loads(archive.read(name))) for name in archive.namelist()}
    try:
        return opened(json.loads(data))
    except ValueError:
        return {LINES: [opened(json.loads(line)) for line in data.splitlines()]}


def written(format, value):
    if format == "eval":
        return captured.archive({name: json.dumps(closed(one)).encode() for name, one in value.items()})
    if isinstance(value, dict) and LINES in value:
        return b"".join(json.dumps(closed(one)).encode() + b"\n" for one in value[LINES])
    return (yaml.safe_dump if format.startswith("vcr") else json.dumps)(closed(value)).encode()


def able(recording, how):
    """List the places of a recording where a canary can be planted."""
    found = [place for place in places(recording) if len(place) > 1 and not {TEXT, LINES} & {place[-1]}]
    return [place for place in found if planted(recording, place, how) is not None]


def silent():
    return not any(CANARY.lower() in one.lower() for one in outputs())


@crossed("format, how", captured.WRITERS, HOW)
def test_redacted_outputs_have_no_text_of_a_capture(format, how):
    recording = read(format, captured.capture(format))
    for place in able(recording, how)[-1 - HOW.index(how) :: -EVERY]:
        put("r.jsonl", written(format, planted(recording, place, how)))
        assert silent(), place


@pytest.mark.parametrize("format", captured.WRITERS)
def test_damaged_capture_is_not_quoted(format):
    recording = copy.deepcopy(read(format, captured.capture(format)))
    for place in able(recording, "text"):
        if {"content", "text", "system"} & {place[-1], place[-2]}:
            recording = planted(recording, place, "text") or recording
    data = written(format, recording)
    assert format == "eval" or CANARY.encode() in data
    for cut in (len(data) // 3, len(data) - 9):
        put("r.jsonl", data[:cut])
        assert silent(), cut
        put("r.jsonl", data[:cut].replace(b"role", b"\xff", 1) + b"\n{broken " + CANARY.encode() + b"\n" + data[cut:])
        assert silent(), cut
