"""`lore record` shows no credential."""

import re

import pytest

from cli.running import lore
from helpers.credentials import SAMPLES
from helpers.matrix import some
from hostile.test_credentials import shows

# Kinds that can be part of a name: of a file, of an upstream, in the path of a URL.
_NAMES = {name: sample for name, sample in SAMPLES.items() if re.fullmatch(r"[\w.~=-]{1,200}", sample.text)}


@pytest.mark.parametrize("kind", some(_NAMES))
def test_record_shows_no_credential(kind, tmp_path, monkeypatch):
    """Not in its file, its upstreams, or a command that cannot be started."""
    monkeypatch.chdir(tmp_path)
    text = _NAMES[kind].text
    at = "http://127.0.0.1:9"
    ran = [
        lore("record", "-v", "-o", "c.jsonl", "--upstream", f"anthropic=http://user:{text}@127.0.0.1:9", "--", "true"),
        lore("record", "-v", "-o", "d.jsonl", "--upstream", f"{at}/{text}", "--json", "--", "true"),
        lore("record", "-v", "-o", "e.jsonl", "--upstream", f"{at}/?key={text}", "--", "true"),
        lore("record", "-v", "-o", f"{text}.jsonl", "--upstream", at, "--", f"/nowhere/{text}"),
        lore("record", "-v", "-o", "f.jsonl", "--upstream", f"{text}={at}", "--", "true"),
    ]
    assert [shows(_NAMES[kind], one.out + one.err) for one in ran] == [[]] * len(ran)
