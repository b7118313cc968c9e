"""A release can be built again with the same bytes, and has the right files."""

import os
import tarfile
import zipfile

import pytest

from release.building import ROOT, build

pytest.importorskip("build")
pytestmark = [
    pytest.mark.soak,  # a build takes seven seconds
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="builds a commit of the repository"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build("HEAD", tmp_path_factory.mktemp("one"))


def test_two_builds_of_a_commit_are_equal(built, tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    mask = os.umask(0o077)
    try:
        again = build("HEAD", tmp_path / "two")
    finally:
        os.umask(mask)
    assert [path.name for path in again] == [path.name for path in built]
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in built]


def test_wheel_holds_package_guide_data_and_vocabulary_only(built):
    (wheel,) = (path for path in built if path.suffix == ".whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {
        "lore/guide/start.md",
        "lore/tokens/o200k_base.tiktoken",
        "lore/py.typed",
        "lore/judge/pages/LORE101.md",
    } <= set(names)
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"lore", "lore_plugins", "lore_cache"}


def test_sdist_has_tests_and_no_environment(built):
    (sdist,) = (path for path in built if path.name.endswith(".tar.gz"))
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "Makefile", "CHANGELOG.md", "tests/conftest.py"} <= names
    assert not [name for name in names if ".venv" in name or "__pycache__" in name]
