"""`lore trust`, and how `lore compact` treats settings that were not approved."""

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from cli.compacting import talk
from cli.running import lore, put
from helpers.schemas import valid

MARK = (
    "import pathlib, sys; sys.stdin.read(); pathlib.Path('ran.txt').open('a').write('ran '); print('A short summary.')"
)
COMMAND = json.dumps([sys.executable, "-c", MARK])
POLICY = "[compaction]\ncontinuous_interval = 1\nkeep_recent = 1\n"
RUNS = f'{POLICY}summarizer = "command"\ncommand = {COMMAND}\n'
ASKS = f'{POLICY}[[compaction.context_sources]]\nname = "news"\ncommand = {COMMAND}\n'
SENDS = f'{POLICY}summarizer = "openai"\nendpoint = "http://127.0.0.1:9/v1"\nmodel = "m"\nkey_env = "CANARY_SECRET"\n'


@pytest.fixture(autouse=True)
def approvals(desk, tmp_path, monkeypatch):
    """Return the folder of approvals; work in a project that has a session and no settings yet."""
    monkeypatch.delenv("LORE_STATE", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("CANARY_SECRET", "canary")
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    put("s.jsonl", talk())
    return tmp_path / "state" / "lore" / "trusted"


def settings(text, folder="."):
    Path(folder, "lore.toml").write_text(text, encoding="utf-8")


def ran():
    return os.path.exists("ran.txt")


def listed():
    answer = lore("trust", "--list", "--json").json
    valid(answer, "trust")
    return [(os.path.dirname(file["path"]), file["state"]) for file in answer["files"]]


@pytest.mark.parametrize(("text", "names"), [
    (RUNS, "compaction.command"),
    (ASKS, "compaction.context_sources news"),
    (SENDS, "compaction.endpoint, compaction.key_env"),
])  # fmt: skip
def test_compact_refuses_unapproved_settings_of_found_file(text, names):
    settings(text)
    before = Path("s.jsonl").read_bytes()
    refused, folder = lore("compact", "s.jsonl"), os.getcwd()
    assert refused.code == 2
    assert f"{names} of {folder}/lore.toml cannot be used: you have not approved this file" in refused.err
    assert f"lore trust {folder}" in refused.err
    assert (ran(), Path("s.jsonl").read_bytes()) == (False, before)


def test_trust_approves_settings_of_parent_folder(monkeypatch):
    settings(RUNS)
    os.mkdir("below")
    monkeypatch.chdir("below")
    assert lore("compact", "../s.jsonl").code == 2
    assert lore("trust").code == 0
    assert listed() == [(os.path.dirname(os.getcwd()), "approved")]
    assert lore("compact", "../s.jsonl").code == 0
    assert ran()


@pytest.mark.parametrize("text", [RUNS, ASKS])
def test_compact_runs_commands_of_approved_folder(text):
    settings(text)
    approved = lore("trust", ".")
    assert (approved.code, "  compaction.co" in approved.out) == (0, True)
    assert lore("compact", "s.jsonl").code == 0
    assert ran()


@pytest.mark.parametrize("option", ["--config", "--policy"])
def test_compact_runs_commands_of_named_file(option):
    settings(RUNS)
    assert lore("compact", "s.jsonl", option, "lore.toml").code == 0
    assert ran()


def test_compact_without_commands_needs_no_approval():
    settings(POLICY)
    assert lore("compact", "s.jsonl").code == 0
    assert not ran()


def test_watch_refuses_unapproved_settings():
    settings(RUNS)
    refused = lore("compact", "sqlite:s.db", "--watch")
    assert (refused.code, "lore trust" in refused.err) == (2, True)


def test_reading_commands_ignore_unapproved_settings():
    settings(RUNS)
    assert lore("compact", "s.jsonl", "--dry-run").code == 0
    assert "lore trust" not in lore("check", "s.jsonl").err
    assert not ran()


def test_changed_file_is_approved_again():
    settings(RUNS)
    lore("trust")
    settings(RUNS + "# another line\n")
    assert listed() == [(os.getcwd(), "changed")]
    refused = lore("compact", "s.jsonl")
    assert (refused.code, "changed since you approved it" in refused.err) == (2, True)
    assert not ran()
    lore("trust")
    assert listed() == [(os.getcwd(), "approved")]
    assert lore("compact", "s.jsonl").code == 0


def test_removed_approval_does_not_count():
    settings(RUNS)
    lore("trust")
    assert lore("trust", "--remove", ".").out.startswith("removed ")
    assert listed() == []
    assert lore("compact", "s.jsonl").code == 2
    again = lore("trust", "--remove", ".")
    assert (again.code, ". is not approved" in again.err) == (2, True)


def test_removed_folder_is_listed_and_forgotten(tmp_path):
    removed = tmp_path / "gone"
    removed.mkdir()
    settings(RUNS, removed)
    lore("trust", str(removed))
    (removed / "lore.toml").unlink()
    removed.rmdir()
    assert listed() == [(str(removed), "missing")]
    assert lore("trust", "--remove", str(removed)).code == 0
    assert listed() == []


def test_linked_folder_is_approved_under_its_real_path(tmp_path, monkeypatch):
    settings(RUNS)
    os.symlink(tmp_path / "project", tmp_path / "link")
    lore("trust", str(tmp_path / "link"))
    assert listed() == [(str(tmp_path / "project"), "approved")]
    monkeypatch.chdir(tmp_path / "link")
    assert lore("compact", "s.jsonl").code == 0
    assert lore("trust", "--remove", str(tmp_path / "link")).code == 0


def test_link_to_approved_settings_needs_its_own_approval(tmp_path):
    (tmp_path / "other").mkdir()
    settings(RUNS, tmp_path / "other")
    lore("trust", str(tmp_path / "other"))
    os.symlink(tmp_path / "other" / "lore.toml", "lore.toml")
    assert lore("compact", "s.jsonl").code == 2
    lore("trust", ".")
    settings(RUNS + "# the target of the link changed\n", tmp_path / "other")
    assert lore("compact", "s.jsonl").code == 2
    assert not ran()


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owner here")
def test_file_of_another_user_cannot_be_approved(monkeypatch):
    settings(RUNS)
    lore("trust")
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    for refused in (lore("trust"), lore("compact", "s.jsonl")):
        assert (refused.code, "it belongs to another user" in refused.err) == (2, True)
    assert not ran()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("place", ["lore.toml", "."])
def test_approved_file_of_another_user_does_not_count(place):
    settings(RUNS)
    lore("trust")
    os.chown(place, 12_345, -1)
    refused = lore("compact", "s.jsonl")
    assert (refused.code, "belongs to another user" in refused.err) == (2, True)
    assert not ran()
    assert lore("compact", "s.jsonl", "--config", "lore.toml").code == 0


@pytest.mark.skipif(os.name == "nt", reason="no such permissions")
@pytest.mark.parametrize("place", ["lore.toml", "."])
def test_settings_that_everybody_can_write_do_not_count(place):
    settings(RUNS)
    os.chmod(place, 0o777)
    refused = lore("trust")
    assert (refused.code, "others can write to" in refused.err) == (2, True)


@pytest.mark.skipif(os.name == "nt", reason="no such permissions")
def test_approvals_are_private(approvals):
    settings(RUNS)
    lore("trust")
    (file,) = approvals.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(approvals.stat().st_mode) == 0o700
    approvals.chmod(0o777)
    refused = lore("compact", "s.jsonl")
    assert (refused.code, "can be written by others" in refused.err) == (2, True)
    assert not ran()


def test_copied_approval_of_another_path_does_not_count(approvals, tmp_path):
    (tmp_path / "other").mkdir()
    settings(RUNS, tmp_path / "other")
    lore("trust", str(tmp_path / "other"))
    (approved,) = approvals.iterdir()
    settings(RUNS)
    lore("trust")
    (copied,) = {*approvals.iterdir()} - {approved}
    copied.write_bytes(approved.read_bytes())
    assert lore("compact", "s.jsonl").code == 2


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """Return this user's folder of settings, as on Linux."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "lore").mkdir(parents=True)
    return tmp_path / "config" / "lore"


def test_own_settings_folder_needs_no_approval(own_folder):
    settings(RUNS, own_folder)
    assert lore("compact", "s.jsonl").code == 0
    assert ran()


def test_own_settings_fill_in_missing_tables_only(own_folder):
    settings(RUNS, own_folder)
    settings("[check]\nmax_breaks = 1\n")
    assert lore("compact", "s.jsonl").code == 0
    assert ran()
    os.unlink("ran.txt")
    put("s.jsonl", talk())
    settings(POLICY)
    assert lore("compact", "s.jsonl").code == 0
    assert not ran()


def test_reading_commands_do_not_read_own_settings(own_folder):
    settings("[check]\nno_such_key = 1\n", own_folder)
    assert lore("check", "s.jsonl").code == 0


@pytest.mark.skipif(os.name == "nt", reason="no such permissions")
def test_own_settings_writable_by_others_are_ignored(own_folder):
    settings(RUNS, own_folder)
    own_folder.chmod(0o777)
    refused = lore("compact", "s.jsonl")
    assert (refused.code, "others can write to its folder" in refused.err) == (2, True)
    assert not ran()


def test_trust_without_settings_says_so():
    refused = lore("trust", ".")
    assert (refused.code, "there are no settings in ." in refused.err) == (2, True)
    settings(POLICY)
    assert "it names no command, endpoint or key" in lore("trust", "lore.toml").out


def test_trust_list_takes_no_folder():
    assert lore("trust", "--list", ".").code == 2
    assert lore("trust", "--list").out == "No folder is approved.\n"
