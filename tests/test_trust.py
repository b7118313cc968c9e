"""Owners and permissions of settings files, as `lore trust` judges them."""

import os
import stat

import pytest

from lore.errors import LoreError
from lore.files import SettingsFile, config_root
from lore.trust import approve, refuse_unapproved

pytestmark = pytest.mark.skipif(os.name == "nt", reason="files have no owner here")


@pytest.fixture
def file(tmp_path):
    """Return a function that gives a settings file with this mode and group, in the folder of the user's own."""
    (tmp_path / "lore.toml").write_bytes(b"")

    def made(mode, group):
        about = list(os.stat(tmp_path / "lore.toml"))
        about[stat.ST_MODE], about[stat.ST_GID] = stat.S_IFREG | mode, group
        return SettingsFile(str(tmp_path / "lore.toml"), b"", os.stat_result(about))

    return made


@pytest.mark.parametrize(("mode", "group", "counts"), [(0o600, 1, True), (0o664, 1, False), (0o606, 0, False)])
def test_own_settings_count_if_only_this_user_writes(file, tmp_path, mode, group, counts):
    tmp_path.chmod(0o700)
    found = file(mode, os.geteuid() + group)
    if counts:
        refuse_unapproved(found, ["compaction.command"], str(tmp_path), "lore.toml")
        return
    with pytest.raises(LoreError, match="others can write to it"):
        refuse_unapproved(found, ["compaction.command"], str(tmp_path), "lore.toml")


def test_private_group_may_write_own_settings(file, tmp_path):
    tmp_path.chmod(0o700)
    refuse_unapproved(file(0o664, os.geteuid()), ["compaction.command"], str(tmp_path), "lore.toml")


@pytest.mark.parametrize(("environment", "home", "platform", "root"), [
    ({}, "/home/ada", "linux", "/home/ada/.config"),
    ({"XDG_CONFIG_HOME": "/c"}, "/home/ada", "linux", "/c"),
    ({"XDG_CONFIG_HOME": "c"}, "/home/ada", "linux", "/home/ada/.config"),
    ({"XDG_CONFIG_HOME": "/c"}, "/Users/ada", "darwin", "/Users/ada/Library/Application Support"),
    ({"APPDATA": "C:\\a"}, "C:\\ada", "win32", "C:\\a"),
    ({}, "C:\\ada", "win32", "C:\\ada\\AppData\\Roaming"),
    ({}, "", "linux", ""),
])  # fmt: skip
def test_folder_of_settings_is_the_usual_one(environment, home, platform, root):
    assert config_root(environment, home, platform) == root


def test_unusable_approvals_folder_is_named(file, tmp_path, monkeypatch):
    (tmp_path / "state").write_bytes(b"")  # a file in the folder's place
    monkeypatch.setenv("LORE_STATE", str(tmp_path / "state"))
    tmp_path.chmod(0o700)
    with pytest.raises(LoreError, match=r"^cannot keep approvals in .*state: file exists"):
        approve(file(0o600, 0))
