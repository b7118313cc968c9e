"""Arguments that make no sense."""

import pytest

from hostile.making import BODY, GOOD, USER, assert_refused

USAGE_ERRORS = (
    ("nothing",),
    ("fold",),
    ("fold", "a", "b"),
    ("fold", "--at", "x", "a"),
    ("fold", "--pruned", "--unpruned", "good.jsonl"),
    ("fold", "good.jsonl", "--at", "99"),
    ("assemble", "body.json", "--turn", "2"),
    ("assemble", "good.jsonl", "--dialect", "latin"),
    ("assemble", "good.jsonl", "--tail", "up"),
    ("assemble", "good.jsonl#1", "--turn", "2"),
    ("assemble", "good.jsonl", "--turn", "99999999999999999999999"),
    ("assemble", "good.jsonl", "--turn", "-1"),
    ("check", "good.jsonl", "--format", "punched cards"),
    ("check", "good.jsonl", "--config", "missing.toml"),
    ("check", "good.jsonl", "--config", "broken.toml"),
    ("check", "good.jsonl", "--config", "unknown.toml"),
    ("diff-prefix", "good.jsonl", "--fail-under", "2"),
    ("diff-prefix", "good.jsonl"),
    ("diff-prefix", "good.jsonl#1"),
    ("diff-prefix", "-", "-"),
    ("explain", "LORE999"),
    ("schema", "nothing"),
)


@pytest.mark.parametrize("words", USAGE_ERRORS, ids=" ".join)
def test_wrong_argument_is_refused(lore, desk, words):
    (desk / "good.jsonl").write_bytes(GOOD)
    (desk / "body.json").write_bytes(BODY)
    (desk / "broken.toml").write_bytes(b"[check\n\xff")
    (desk / "unknown.toml").write_bytes(b"[check]\nmin_reuze = 0.5\n")
    assert_refused(lore(*words))


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "1e400"])
@pytest.mark.parametrize("option", ["--min-reuse", "--fail-under"])
def test_share_that_is_not_a_share_is_refused(lore, desk, option, value):
    (desk / "good.jsonl").write_bytes(GOOD + USER % 2 + b'{"kind":"turn_started","turn":2}\n')
    assert_refused(lore("check" if option == "--min-reuse" else "diff-prefix", "good.jsonl", option, value))
