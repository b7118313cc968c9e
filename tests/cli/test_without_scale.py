"""Without the plug-in `scale`, what needs it says so, and names the command that installs it."""

from __future__ import annotations

import pytest

from cli.running import lore, put, session
from lore import plugins
from lore.recording.filesystem import _remote_files, schemes


@pytest.fixture
def no_plug_ins(monkeypatch):
    monkeypatch.setattr(plugins, "_has_own", lambda: False)
    caches = (plugins._all_published, _remote_files, schemes)
    for kept in caches:
        kept.cache_clear()
    yield
    for kept in caches:
        kept.cache_clear()


@pytest.mark.parametrize(
    ("args", "needed_for", "extra"),
    [
        (("check", "s3://b/p/"), "s3://", "remote"),
        (("fold", "https://host/s.jsonl"), "https://", "remote"),
        (("check", "s.jsonl", "--jobs", "local"), "--jobs local", "dask"),
        (("check", "s.jsonl", "--report", "parquet=t"), "--report parquet", "tables"),
    ],
)
@pytest.mark.usefixtures("no_plug_ins")
def test_missing_plug_in_is_named_with_its_command(args, needed_for, extra):
    put("s.jsonl", session())
    ran = lore(*args)
    assert ran.code == 2
    assert f"{needed_for} needs lore's plug-in 'scale'" in ran.err
    assert f"pipx install --force '.[{extra}]', or pip install '.[{extra}]'" in ran.err
