"""The page of lore's promises names existing tests."""

import re

from release.building import ROOT

PAGE = (ROOT / ".github" / "SECURITY.md").read_text("utf-8")


def test_every_promise_names_existing_tests():
    promises = PAGE.partition("## Promises")[2].partition("**Files and connections.**")[0]
    rows = [line for line in promises.splitlines() if line.startswith("| ") and "checked by" not in line]
    assert len(rows) > 10
    assert [row for row in rows if not re.search(r"`(tests/|make |lint-imports)", row)] == []
    named = set(re.findall(r"`(tests/[^`]+|\.github/[^`]+|CHANGELOG\.md)`", PAGE))
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_named_make_targets_exist():
    made = (ROOT / "Makefile").read_text("utf-8")
    for target in set(re.findall(r"`make ([a-z]+)`", PAGE)):
        assert re.search(rf"^{target}:", made, re.MULTILINE), target
