"""`--lore-cassettes`: which recordings are judged, which fail, and the report."""

import json

import pytest
import yaml

from lore.model.codes import fix_of
from pytest_plugin.asking import body, recording

STABLE = recording(body(1), body(2))
MOVED = recording(body(1), body(2, day=21))
NONE = '{"interactions": "none that lore knows"}\n'
PASSES = "def test_it():\n    pass\n"
USES = """
from vcr.cassette import Cassette
def test_good():
    Cassette("cassettes/good.jsonl")
def test_{name}():
    Cassette(path=str(__import__("pathlib").Path("cassettes/{name}.jsonl")))
"""


@pytest.fixture
def folder(pytester):
    """Return what writes recordings below the root."""

    def put(**files: str) -> None:
        for name, text in files.items():
            path = pytester.path / (name.replace("__", "/") + ".jsonl")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return put


def said(result) -> str:
    return str(result.stdout).partition("lore: cassettes")[2]


def test_exceeded_budget_is_no_further_cassette(suite, folder, pytester) -> None:
    pytester.makepyprojecttoml("[tool.lore.check]\nmax_breaks = 0\n")
    folder(cassettes__bad=MOVED)
    last_line = suite(PASSES, "--lore-cassettes").outlines[-2]
    assert last_line.startswith("lore: 1 of 1 cassettes waste their prompt cache: 1x LORE101 date-in-prefix, 1x LORE4")
    assert "in cassettes/bad.jsonl, pyproject.toml;" in last_line


def test_cassettes_need_the_option(suite, folder) -> None:
    folder(cassettes__bad=MOVED)
    result = suite(PASSES)
    assert result.ret == 0
    assert not said(result)


def test_wasteful_cassette_fails_the_run(suite, folder) -> None:
    folder(cassettes__good=STABLE, cassettes__bad=MOVED)
    result = suite(PASSES, "--lore-cassettes")
    result.assert_outcomes(passed=1)
    assert result.ret == 1
    assert "all below folders named cassettes" in said(result)
    assert "LORE101 date-in-prefix in turn 2 at system\n    cassettes/bad.jsonl:2\n" in said(result)
    assert "Freeze the date" in said(result)
    assert result.outlines[-2] == (
        "lore: 1 of 2 cassettes waste their prompt cache: 1x LORE101 date-in-prefix, in cassettes/bad.jsonl; "
        "type: lore explain LORE101"
    )


def test_last_line_explains_the_most_frequent_cause(suite, folder) -> None:
    orders = ("a", "b", "c"), ("b", "c", "a"), ("c", "a", "b")
    reordered = recording(*(body(turn, tools=tools) for turn, tools in enumerate(orders, 1)))
    folder(cassettes__a=MOVED, cassettes__b=reordered)
    last_line = suite(PASSES, "--lore-cassettes").outlines[-2]
    assert "2x LORE102 tools-reordered, 1x LORE101" in last_line
    assert last_line.endswith("type: lore explain LORE102")


def test_last_line_follows_the_short_summary(suite, folder) -> None:
    folder(cassettes__odd=STABLE + '{"request": {"model": "x", "prompt": "an old shape"}}\n')
    folder(cassettes__cut=STABLE + '{"request": {')  # judged, with a problem
    result = suite("def test_it():\n    assert 0\n", "--lore-cassettes")
    at = next(number for number, line in enumerate(result.outlines) if "short test summary" in line)
    assert result.outlines[-2] == (
        "lore: not every cassette could be judged: cassettes/odd.jsonl; type: lore check cassettes/odd.jsonl"
    )
    assert at < len(result.outlines) - 2


def test_unsearched_folders_are_skipped(suite, folder, pytester) -> None:
    folder(cassettes__good=STABLE, venv__cassettes__bad=MOVED, node_modules__cassettes__bad=MOVED)
    folder(env__lib__cassettes__bad=MOVED, **{".hidden__cassettes__bad": MOVED})
    (pytester.path / "env" / "pyvenv.cfg").touch()
    assert suite(PASSES, "--lore-cassettes").ret == 0


def test_named_folder_is_judged_alone(suite, folder) -> None:
    folder(cassettes__good=STABLE, mine__bad=MOVED)
    result = suite(PASSES, "--lore-cassettes=mine")
    assert result.ret == 1
    assert "mine/bad.jsonl:2" in said(result)
    assert suite(PASSES, "--lore-cassettes=cassettes").ret == 0


@pytest.mark.parametrize(("name", "why"), [("nowhere", "does not exist"), ("test_it.py", "is not a folder")])
def test_missing_folder_is_a_usage_error(suite, name, why) -> None:
    result = suite(PASSES, f"--lore-cassettes={name}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--lore-cassettes={name} {why}*"])


@pytest.mark.parametrize("options", [("--lore-cassettes", "test_it.py"), ("test_it.py", "--lore-cassettes", "-q")])
def test_option_may_precede_paths(suite, folder, options) -> None:
    folder(cassettes__bad=MOVED)
    result = suite(PASSES, *options)
    result.assert_outcomes(passed=1)
    assert result.ret == 1
    assert "all below folders named cassettes" in said(result)


def test_option_precedes_node_ids(suite, folder) -> None:
    folder(cassettes__good=STABLE)
    result = suite(PASSES + "def test_other():\n    assert 0\n", "--lore-cassettes", "test_it.py::test_it")
    result.assert_outcomes(passed=1)
    assert result.ret == 0


def test_damaged_cassette_is_not_called_wasteful(suite, folder) -> None:
    first, *rest = STABLE.splitlines(keepends=True)
    folder(cassettes__bad=f'{first}{{"request"\n{"".join(rest)}')
    result = suite(PASSES, "--lore-cassettes")
    assert "lore: 1 of 1 cassettes fail: 1x LORE201 unreadable-line, in cassettes/bad.jsonl" in said(result)


def test_folder_without_recordings_fails(suite, folder) -> None:
    folder(mine__other=NONE)
    result = suite(PASSES, "--lore-cassettes=mine")
    assert result.ret == 1
    assert "no recordings in mine" in said(result)


def test_suite_without_cassettes_fails(suite) -> None:
    result = suite(PASSES, "--lore-cassettes")
    assert result.ret == 1
    assert "there is no cassette to judge" in said(result)


def test_used_cassettes_name_their_tests(suite, folder) -> None:
    folder(cassettes__good=STABLE, cassettes__bad=MOVED, cassettes__unused=MOVED)
    result = suite(USES.format(name="bad"), "--lore-cassettes")
    result.assert_outcomes(passed=2)
    assert result.ret == 1
    assert "those that this run used" in said(result)
    assert "unused" not in said(result)
    assert "cassettes/bad.jsonl is used by test_it.py::test_bad" in said(result)
    assert suite(USES.format(name="bad"), "--lore-cassettes", "-k", "good").ret == 0


def test_cassette_of_marked_test_is_only_reported(suite, folder) -> None:
    folder(cassettes__good=STABLE, cassettes__bad=MOVED)
    mark = '@pytest.mark.moves_cache_prefix(reason="a new day")\ndef test_bad'
    text = USES.format(name="bad").replace("def test_bad", mark)
    result = suite(text, "--lore-cassettes")
    result.assert_outcomes(passed=2)
    assert result.ret == 0
    assert "moved, as marked: cassettes/bad.jsonl of test_it.py::test_bad (reason: a new day)" in said(result)
    assert "LORE101" in said(result)
    shared = text + 'def test_shares():\n    Cassette("cassettes/bad.jsonl")\n'
    assert suite(shared, "--lore-cassettes").ret == 1


def test_unneeded_mark_is_reported(suite, folder) -> None:
    folder(cassettes__good=STABLE, cassettes__calm=STABLE)
    mark = '@pytest.mark.moves_cache_prefix(reason="r")\ndef test_calm'
    text = USES.format(name="calm").replace("def test_calm", mark)
    result = suite(text, "--lore-cassettes")
    assert result.ret == 0
    assert "marked, and moves nothing: cassettes/calm.jsonl of test_it.py::test_calm (reason: r)" in said(result)
    result = suite(text + "    assert_prefix_stable(MOVED)\n", "--lore-cassettes")
    assert "marked, and moves nothing" not in said(result)


def test_mark_of_short_prompt_is_not_called_unneeded(suite, folder) -> None:
    bill = {"input_tokens": 5, "output_tokens": 4, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    short = [{"request": body(turns, day=19 + turns), "usage": bill} for turns in (1, 2)]
    folder(cassettes__good=STABLE, cassettes__short="".join(json.dumps(one) + "\n" for one in short))
    mark = '@pytest.mark.moves_cache_prefix(reason="r")\ndef test_short'
    result = suite(USES.format(name="short").replace("def test_short", mark), "--lore-cassettes")
    assert "marked, and moves nothing" not in said(result)


@pytest.mark.soak
def test_xdist_changes_nothing(suite, folder) -> None:
    folder(cassettes__good=STABLE, cassettes__bad=MOVED, cassettes__unused=MOVED)
    result = suite(USES.format(name="bad"), "--lore-cassettes", "-n2", apart=True)
    assert result.ret == 1
    assert "those that this run used" in said(result)
    assert "cassettes/bad.jsonl is used by test_it.py::test_bad" in said(result)
    assert str(result.stdout).count("lore: cassettes,") == 1


REPLAYS = """
import json
import requests
import vcr
@pytest.mark.parametrize("ending", ["yaml", "json"])
def test_agent(ending):
    tape = vcr.use_cassette(f"cassettes/tape.{ending}", serializer=ending, record_mode="none")
    with tape, requests.Session() as session:
        session.trust_env = False
        for one in MOVED:
            session.post("https://api.example/v1/messages", json=one)
"""


def test_vcr_cassettes_are_judged(suite, pytester) -> None:
    answer = {"status": {"code": 200, "message": "OK"}, "headers": {}, "body": {"string": "{}"}}
    calls = [
        {
            "request": {
                "method": "POST", "uri": "https://api.example/v1/messages", "headers": {},
                "body": json.dumps(body(turns, day=day)),
            },
            "response": answer,
        }
        for turns, day in ((1, 20), (2, 21))
    ]  # fmt: skip
    tape = {"interactions": calls, "version": 1}
    (pytester.path / "cassettes").mkdir()
    (pytester.path / "cassettes" / "tape.yaml").write_text(yaml.dump(tape))
    (pytester.path / "cassettes" / "tape.json").write_text(json.dumps(tape))
    result = suite(REPLAYS, "--lore-cassettes")
    result.assert_outcomes(passed=2)
    assert result.ret == 1
    assert "those that this run used" in said(result)
    assert said(result).count("\n    cassettes/tape.") == 2
    assert "cassettes/tape.yaml is used by test_it.py::test_agent[yaml]" in said(result)


def test_vcr_is_unwrapped(suite, folder) -> None:
    from vcr.cassette import Cassette

    before = Cassette.__init__
    folder(cassettes__good=STABLE)
    suite(PASSES, "--lore-cassettes")
    assert Cassette.__init__ is before


def test_settings_apply_to_cassettes(suite, folder, pytester) -> None:
    folder(cassettes__good=STABLE)
    settings = pytester.path / "pyproject.toml"
    settings.write_text("[tool.lore.check]\nmin_reuse = 1.0\n")
    assert suite(PASSES, "--lore-cassettes").ret == 0
    folder(cassettes__bad=MOVED)
    assert "LORE401" in said(suite(PASSES, "--lore-cassettes"))
    settings.write_text('[tool.lore.check]\nreader = "user"\n')
    assert fix_of("LORE101", "user")[:40] in said(suite(PASSES, "--lore-cassettes"))
    settings.write_text("[tool.lore.check]\nmin_reus = 1.0\n")
    result = suite(PASSES, "--lore-cassettes")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*unknown key check.min_reus*did you mean check.min_reuse?*"])


def test_interrupted_run_is_not_judged(suite, folder) -> None:
    folder(cassettes__bad=MOVED)
    assert suite(PASSES, "--lore-cassettes", "--collect-only").ret == 0
    result = suite("def test_it():\n    raise KeyboardInterrupt\n", "--lore-cassettes")
    assert result.ret == pytest.ExitCode.INTERRUPTED
