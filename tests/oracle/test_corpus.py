"""`lore check` agrees with the names of real recordings: they drop the prefix, or keep it."""

import json

import pytest

from lore.commands.main import main

DROPS = "vcr/*drops_prefix*"
STABLE = ("vcr/*cache_prefix_stable*", "vcr/*wire_stable*")
pytestmark = pytest.mark.corpus


def checked(capsys, path):
    code = main(["check", str(path), "--json"])
    out, err = capsys.readouterr()
    assert code in (0, 1), err
    return code, json.loads(out)


def test_cassette_named_drops_prefix_has_a_break(corpus, capsys):
    files = sorted(corpus.glob(DROPS))
    assert files
    for path in files:
        code, result = checked(capsys, path)
        breaks = [one for one in result["findings"] if one["is_break"] and one["code"].startswith("LORE1")]
        assert breaks, path.name
        short = all(
            "under-minimum" in one["qualifiers"] for one in breaks
        )  # a prompt that is too short to be cached loses nothing
        assert code == (0 if short else 1), path.name


def test_cassettes_named_stable_have_no_waste(corpus, capsys):
    files = sorted(path for pattern in STABLE for path in corpus.glob(pattern))
    assert len(files) >= 4
    for path in files:
        code, result = checked(capsys, path)
        assert [one for one in result["findings"] if one["kind"] == "waste"] == [], path.name
        assert code == 0, path.name
        assert result["summary"]["pairs"] >= 1, path.name
