"""The plugin as pytest runs it: fixture, mark, reports, imports."""

import json

import pytest

REASON = '@pytest.mark.moves_cache_prefix(reason="the date is what this feature shows")\n'


def test_failure_shows_divergence_without_bodies(suite) -> None:
    result = suite("def test_agent():\n    assert_prefix_stable(MOVED)\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([
        "E*AssertionError: the prompt's prefix moved in 1 of 1 pair of successive requests",
        "E*differs at system, byte 47 of it, in system",
        "E*LORE101 date-in-prefix (waste)*",
        "E*fix: Freeze the date*",
    ])  # fmt: skip
    result.stdout.no_fnmatch_line("*Question 0*")
    result.stdout.no_fnmatch_line("*stable.py*")
    result.stdout.no_fnmatch_line("*return moved*")


def test_error_shows_no_body(suite) -> None:
    result = suite("def test_agent():\n    assert_prefix_stable(MOVED, allow='date-in-prefx')\n")
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*requests = *")
    result.stdout.no_fnmatch_line("*allowances.py*")


SENDS = """
def send(day):
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json={}))
    for one in (STABLE[0], (MOVED if day else STABLE)[1]):
        httpx.Client(transport=transport).post("https://api.example/v1/messages", json=one)
"""


def test_fixture_records_requests(suite) -> None:
    result = suite(
        SENDS + "def test_good(lore_recorder):\n    send(0)\n    assert_prefix_stable(lore_recorder)\n"
        "def test_bad(lore_recorder):\n    send(1)\n    assert_prefix_stable(lore_recorder)\n"
        "def test_put_back():\n    assert not hasattr(httpx.Client.send, '__wrapped__')\n"
    )
    result.assert_outcomes(passed=2, failed=1)


def test_recorder_without_assertion_is_a_warning(suite) -> None:
    text = SENDS + (
        "def test_forgets(lore_recorder):\n    send(0)\n"
        "def test_looks(lore_recorder):\n    send(0)\n    assert len(lore_recorder) == 2\n"
        "def test_fails(lore_recorder):\n    send(0)\n    assert False\n"
        "def test_sends_nothing(lore_recorder):\n    pass\n"
    )
    result = suite(text, "-W", "always")
    result.assert_outcomes(passed=3, failed=1, warnings=1)
    result.stdout.fnmatch_lines(["*test_it.py::test_forgets: 2 recorded requests not checked: call assert_prefix*"])


def test_marked_test_is_reported(suite) -> None:
    result = suite(f"{REASON}def test_agent():\n    assert_prefix_stable(MOVED)\n", "--junitxml=junit.xml")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([
        "*lore: prefixes moved, as marked*",
        "test_it.py::test_agent: request 1 → 2: LORE101 *at system (reason: the date is what this feature shows)",
    ])  # fmt: skip


def test_prefix_moved_by_fixture_is_reported_once(suite) -> None:
    result = suite(
        "@pytest.fixture\ndef watched():\n    yield\n    assert_prefix_stable(MOVED)\n"
        f"{REASON}def test_agent(watched):\n    assert_prefix_stable(MOVED)\n"
    )
    result.assert_outcomes(passed=1)
    assert str(result.stdout).count("LORE101") == 1  # the same words of the same test


def test_mark_excuses_only_its_test(suite) -> None:
    result = suite(
        f"{REASON}def test_a():\n    assert_prefix_stable(MOVED)\ndef test_b():\n    assert_prefix_stable(MOVED)\n"
    )
    result.assert_outcomes(passed=1, failed=1)


@pytest.mark.parametrize(
    "mark", ["", "()", '(reason="")', '(reason=" ")', "(reason=3)", '("because")', '(reason="r", more=1)']
)
def test_mark_without_reason_is_an_error(suite, mark) -> None:
    result = suite(f"@pytest.mark.moves_cache_prefix{mark}\ndef test_agent():\n    assert_prefix_stable(MOVED)\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(['*test_agent: the mark needs a reason: @pytest.mark.moves_cache_prefix(reason="…")*'])
    assert result.ret == 1


def test_unneeded_mark_is_a_warning(suite) -> None:
    text = f"{REASON}def test_agent():\n    assert_prefix_stable(STABLE)\n"
    result = suite(text, "-W", "always")
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*LoreWarning: test_it.py::test_agent is marked moves_cache_prefix, but no*"])
    suite(text).assert_outcomes(passed=1, errors=1)


def test_marked_class_may_have_stable_tests(suite) -> None:
    tests = "    def test_a(self):\n        assert_prefix_stable(MOVED)\n    def test_b(self):\n        pass\n"
    suite(f"{REASON}class TestAgent:\n{tests}").assert_outcomes(passed=2)


def test_mark_is_registered(suite) -> None:
    suite(f"{REASON}def test_agent():\n    assert_prefix_stable(MOVED)\n", "--strict-markers").assert_outcomes(passed=1)
    suite("", "--markers").stdout.fnmatch_lines(["@pytest.mark.moves_cache_prefix(reason=*"])


def test_xdist_changes_nothing(suite) -> None:
    text = SENDS + f"{REASON}def test_a(lore_recorder):\n    send(1)\n    assert_prefix_stable(lore_recorder)\n"
    text += "def test_b(lore_recorder):\n    send(1)\n    assert_prefix_stable(lore_recorder)\n"
    result = suite(text, "-n2", apart=True)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["test_it.py::test_a: request 1 → 2: LORE101*"])


def test_assertion_works_without_the_plugin(suite) -> None:
    result = suite("def test_agent():\n    assert_prefix_stable(MOVED)\n", "-p", "no:lore", apart=True)
    result.assert_outcomes(failed=1)
    result = suite("def test_agent(lore_recorder):\n    pass\n", "-p", "no:lore", apart=True)
    result.stdout.fnmatch_lines(["*fixture 'lore_recorder' not found"])


def test_unused_plugin_imports_the_standard_library(pytester) -> None:
    pytester.makepyfile(
        test_it="import json, sys\ndef test_modules():\n    print('MODULES=' + json.dumps(sorted(sys.modules)))\n"
    )
    printed = {}
    for name, options in {"with": (), "without": ("-p", "no:lore")}.items():
        result = pytester.runpytest_subprocess("-s", "-p", "no:cacheprovider", *options)
        line = next(one for one in result.outlines if "MODULES=" in one)
        printed[name] = set(json.loads(line.partition("MODULES=")[2]))
    added = printed["with"] - printed["without"]
    assert {one for one in added if not one.startswith("lore")} <= {"urllib.parse", "urllib", "ipaddress"}
    assert {one for one in added if one.startswith("lore")} == {
        "lore", "lore.errors", "lore.pytest_plugin", "lore.pytest_plugin.hooks", "lore.pytest_plugin.recorder",
    }  # fmt: skip
