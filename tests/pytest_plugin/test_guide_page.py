"""The page of the guide on the plugin: its test fails as the page says."""

import re
import textwrap
from importlib import resources

PAGE = resources.files("lore").joinpath("guide", "pytest.md").read_text("utf-8")


def test_example_of_the_guide_fails_as_shown(pytester, monkeypatch):
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    blocks = [textwrap.dedent(block) for block in re.findall(r"(?:^    [^\n]*\n|^\n(?=    ))+", PAGE, re.MULTILINE)]
    (example,) = (block for block in blocks if "def test_the_prefix_stays" in block)
    (shown,) = (block for block in blocks if block.lstrip().startswith("E  "))
    pytester.makepyfile(test_agent=example)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-W", "error")
    result.assert_outcomes(failed=1)
    printed = [line.rstrip() for line in result.stdout.lines if line.startswith("E ")]
    assert printed == [line.rstrip() for line in shown.strip().splitlines()]
    marked = re.search(r"^    (@pytest\.mark\.moves_cache_prefix\(.*\))$", PAGE, re.MULTILINE)
    assert marked is not None
    passing = example.replace("def test_the", f"{marked[1]}\ndef test_the").replace(
        "import httpx", "import httpx, pytest"
    )
    pytester.makepyfile(test_agent=passing)
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "-W", "error").assert_outcomes(passed=1)
