"""Configuration: its file, and how strict it is."""

import contextlib
import os

import pytest

from lore.cache.base import Simulate
from lore.commands import common
from lore.compaction.settings import Compaction
from lore.config import Check, Settings, find, policy
from lore.errors import LoreError


def load(explicit, folder):
    return find(explicit, folder).settings


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_apply_without_settings(tmp_path):
    assert load(None, tmp_path) == Settings()


def test_all_settings_are_read(tmp_path):
    write(tmp_path / "lore.toml", "[check]\nmin_reuse=0.5\nmax_breaks=1\nmax_lost_tokens=9\n[assemble]\ntail='user'\n")
    made = load(None, tmp_path)
    assert made.check == Check(min_reuse=0.5, max_breaks=1, max_lost_tokens=9)
    assert made.assemble.tail == "user"


def test_settings_of_simulations_are_read(tmp_path):
    assert load(None, tmp_path).simulate == Simulate(None, (), 0.02)
    write(tmp_path / "lore.toml", "[simulate]\nrules='prices.toml'\ncaches=['vllm','anthropic']\ntolerance=0\n")
    assert load(None, tmp_path).simulate == Simulate("prices.toml", ("vllm", "anthropic"), 0.0)


def test_settings_file_has_a_size_limit(tmp_path):
    """`--policy /dev/zero` was read for ever."""
    write(tmp_path / "p.toml", "#" + "x" * 1024 * 1024)
    with pytest.raises(LoreError, match="more than 1,048,576 bytes"):
        policy(str(tmp_path / "p.toml"))


def test_nearest_settings_of_parent_folders_win(tmp_path):
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    write(tmp_path / "lore.toml", "[check]\nmax_breaks=1\n")
    assert load(None, below).check.max_breaks == 1
    write(tmp_path / "a" / "pyproject.toml", "[tool.lore.check]\nmax_breaks=2\n")
    assert load(None, below).check.max_breaks == 2


@pytest.mark.parametrize(("near", "far", "hides"), [
    ("lore.toml", "pyproject.toml", True), ("app/lore.toml", "pyproject.toml", True),
    ("app/pyproject.toml", "lore.toml", True), ("app/lore.toml", "setup.toml", False),
])  # fmt: skip
@pytest.mark.parametrize("text", ["[check]\n", "[check]\nmax_breaks = 1\n"])
def test_hidden_settings_are_named(tmp_path, monkeypatch, capsys, near, far, hides, text):
    for name, check in ((far, "[check]\nmax_breaks = 0\n"), (near, text)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(check.replace("[", "[tool.lore.") if "pyproject" in name else check)
    monkeypatch.chdir((tmp_path / near).parent)
    common.find_settings(None)
    hidden = hides and (text == "[check]\n" or "/" not in near)
    which = f"{os.path.relpath(tmp_path / far)} are not read: {os.path.basename(near)} is read instead"
    assert capsys.readouterr().err == (f"note: the settings of {which}\n" if hidden else "")


def test_pyproject_without_settings_is_skipped(tmp_path):
    below = tmp_path / "a"
    below.mkdir()
    write(below / "pyproject.toml", "[project]\nname='x'\n")
    write(tmp_path / "lore.toml", "[check]\nmax_breaks=1\n")
    assert load(None, below).check.max_breaks == 1


def test_named_settings_replace_all_others(tmp_path):
    write(tmp_path / "lore.toml", "[check]\nmax_breaks=1\n")
    named = write(tmp_path / "other.toml", "[check]\nmax_breaks=7\n")
    assert load(str(named), tmp_path).check.max_breaks == 7
    assert load(str(write(tmp_path / "pyproject.toml", "")), tmp_path) == Settings()


@pytest.mark.parametrize(("text", "said", "hint"), [
    ("[check]\nmin_reus=1\n", "check.min_reus", "did you mean check.min_reuse?"),
    ("[chek]\n", "chek", "did you mean check?"),
    (
        "[check]\nzzz=1\n",
        "check.zzz",
        "known keys: per_path, exempt, max_tail_tokens, reader, tail_labels, select, ignore, count_as_waste",
    ),
    ("[check]\nmin_reuse='high'\n", "min_reuse", ""),
    ("[check]\nmax_breaks=1.5\n", "max_breaks", ""),
    ("[assemble]\ntail='middle'\n", "tail", ""),
    ("check=3\n", "check", ""),
    ("[check]\nmin_reuse=2\n", "min_reuse", ""),
    ("[check]\nmin_reuse=nan\n", "check.min_reuse has to be a number of at least 0", ""),
    ("[[check.per_path]]\npath='a'\nmin_reuse=2\n", "per_path, entry 1: min_reuse has to be a number of at most 1", ""),
    ("[sessions]\ngap_secs=-1\n", "sessions.gap_secs has to be a whole number of at least 0", ""),
    ("[check]\nmax_breaks=-1\n", "max_breaks", ""),
    ("[check]\nmax_lost_tokens=-1\n", "max_lost_tokens", ""),
    ("[check\n", "lore.toml", ""),
    ("[simulate]\ntolerence=0.1\n", "simulate.tolerence", "did you mean simulate.tolerance?"),
    ("[simulate]\ncurrency='EUR'\n", "simulate.currency", "known keys: rules, caches, tolerance"),
    ("[simulate]\ntolerance=1\n", "simulate.tolerance is 1.0", ""),
    ("[simulate]\ntolerance=nan\n", "simulate.tolerance is nan", ""),
    ("[simulate]\ntolerance='2 %'\n", "simulate.tolerance is a text, and has to be a number", ""),
    ("[simulate]\nrules=''\n", "simulate.rules is empty", ""),
    ("[simulate]\ncaches='vllm'\n", "simulate.caches is a text, and has to be a list", '["…", "…"]'),
    ("[simulate]\ncaches=['']\n", "simulate.caches holds an empty name", ""),
])  # fmt: skip
def test_misspelled_setting_is_named_with_suggestion(tmp_path, text, said, hint):
    write(tmp_path / "lore.toml", text)
    with pytest.raises(LoreError) as caught:
        load(None, tmp_path)
    assert said in caught.value.message
    assert hint in caught.value.hint


def test_settings_may_begin_with_byte_order_mark(tmp_path):
    (tmp_path / "lore.toml").write_bytes(b"\xef\xbb\xbf[check]\nmax_breaks = 1\n")
    assert load(None, tmp_path).check.max_breaks == 1


@pytest.mark.parametrize("text", ["tool=3\n", "[tool]\nlore=5\n", "[tool]\nlore=[1]\n"])
def test_odd_pyproject_is_no_crash(tmp_path, text):
    write(tmp_path / "pyproject.toml", text)
    with contextlib.suppress(LoreError):
        assert load(None, tmp_path) == Settings()


def test_unreadable_named_settings_are_an_error(tmp_path):
    with pytest.raises(LoreError, match="cannot read"):
        load(str(tmp_path / "none.toml"), tmp_path)
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(LoreError, match="not TOML") as caught:
        load(str(tmp_path / "bytes.toml"), tmp_path)
    assert caught.value.hint == "save it as UTF-8"


# policies of compaction


def test_policy_keys_are_at_top_or_in_table(tmp_path):
    flat = write(tmp_path / "flat.toml", "continuous_interval = 5\n[[context_sources]]\nname='m'\ncommand=['mail']\n")
    table = write(tmp_path / "table.toml", "[compaction]\ncontinuous_interval = 5\n")
    assert policy(str(flat)).context_sources[0].command == ("mail",)
    assert policy(str(table)) == Compaction(continuous_interval=5)


@pytest.mark.parametrize(("text", "said", "hint"), [
    ("continous_interval = 5\n", "unknown key compaction.continous_interval", "continuous_interval?"),
    ("[compaction]\ngap_secs = 5\n[memory]\n", "memory is next to [compaction]", "--config reads a whole lore.toml"),
    ("gap_secs = 5\n[compaction]\n", "gap_secs is next to [compaction]", "put it below"),
    ("[compaction]\n[[context_sources]]\n", "context_sources is next to", "[[compaction.context_sources]]"),
    ("gap_secs = -5\n", "gap_secs is below 0", ""),
    ("gap_secs = 'x'\n", "gap_secs is a text, and has to be a whole number", ""),
    ("[[context_sources]]\nname = 'm'\ncommand = []\n", "'m': command is empty", ""),
    ("gap_secs = \n", "is not TOML", "quotes"),
])  # fmt: skip
def test_impossible_policy_is_a_one_line_error(tmp_path, text, said, hint):
    path = write(tmp_path / "policy.toml", text)
    with pytest.raises(LoreError) as caught:
        policy(str(path))
    assert said in caught.value.message
    assert hint in caught.value.hint


def test_programs_are_relative_to_the_settings(tmp_path, monkeypatch):
    """A watch that was started in another folder did not find them."""
    sources = "".join(
        f"[[compaction.context_sources]]\nname = '{name}'\ncommand = {command}\n"
        for name, command in (("a", ["bin/a", "x/y"]), ("b", ["git"]))
    )
    write(tmp_path / "lore.toml", f"[compaction]\nsummarizer = 'command'\ncommand = ['./sum']\n{sources}")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    found = load(None, tmp_path / "below").compaction
    assert found == policy("../lore.toml")
    assert found.command == (str(tmp_path / "sum"),)
    assert [one.command for one in found.context_sources] == [(str(tmp_path / "bin/a"), "x/y"), ("git",)]


def test_missing_policy_is_an_error_with_its_name(tmp_path):
    with pytest.raises(LoreError, match="cannot read") as caught:
        policy(str(tmp_path / "none.toml"))
    assert "--policy" in caught.value.hint


def test_summaries_alone_remember_nothing(tmp_path):
    write(tmp_path / "lore.toml", '[memory]\nsystem = "summarization"\n')
    assert load(None, tmp_path).memory.system != "structured"


@pytest.mark.parametrize(("text", "said", "hint"), [
    ("[compaction]\ncontext_sources = 3\n", "context_sources is a whole number", ""),
    ("[[context_sources]]\nhand = 'mail'\ncommand = ['x']\n", "hand", ""),
])  # fmt: skip
def test_invalid_context_source_names_the_fix(tmp_path, text, said, hint):
    with pytest.raises(LoreError) as caught:
        policy(str(write(tmp_path / "p.toml", text)))
    assert said in caught.value.message
    assert hint in caught.value.hint
