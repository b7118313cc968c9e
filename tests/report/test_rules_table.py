"""The table of rules: a row a line, sources once, text of files never obeyed."""

import io
import json

from helpers.schemas import valid
from lore.cache.rule_file import read_rules
from lore.cache.rules import DatedRules
from lore.commands.simulate import list_rules
from lore.report.console import Console
from lore.report.forms.base import render
from lore.report.simulation import write_rules
from lore.run.rules import packaged


def shown(result):
    file = io.StringIO()
    write_rules(result, Console(file, colour=False, terminal=False))
    return file.getvalue().splitlines()


def made(text):
    return list_rules(DatedRules(read_rules(text, "own.toml").rows))


def test_user_rows_are_counted():
    own = read_rules("[[rules]]\nprovider='vllm'\nrule='block_tokens'\nvalue=32\n", "own.toml")
    lines = shown(list_rules(packaged().overridden_by(own.rows)))
    assert lines[lines.index("vllm") + 2].split()[:3] == ["*", "block_tokens", "32"]
    assert "own.toml" in "\n".join(lines)
    assert ", 1 of them your own, as of" in lines[-1]


def test_controls_in_rules_are_escaped():
    lines = shown(made('[[rules]]\nprovider="p"\nrule="lifetime"\nvalue=1\nnote="\\u001b[2J"\nsource="\\u202e"\n'))
    assert "\x1b" not in "".join(lines)
    assert "\u202e" not in "".join(lines)


def test_rules_json_fits_the_schema():
    spelled = render(list_rules(packaged()))
    answer = json.loads(spelled)
    valid(answer, "simulate-rules")
    assert answer["schema"] == 2
    prices = [one["value"] for one in answer["rules"] if one["rule"] == "price_read"]
    assert 0.025 in prices or 0.25 in prices
    assert all(isinstance(one, int | float) or one is None for one in prices)
