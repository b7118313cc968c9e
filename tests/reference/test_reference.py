"""The module reference is made of the docstrings, and its faults are found."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from reference.build import broken_names

BUILD = Path(__file__).parent / "build.py"


@pytest.mark.skipif(find_spec("pdoc") is None, reason="pdoc is not installed: run `make test`")
def test_reference_has_pages_of_public_modules_only(tmp_path) -> None:
    done = subprocess.run([sys.executable, BUILD, tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    pages = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.html")}
    assert {"lore.html", "lore/testing.html", "lore/store/base.html", "lore/pytest_plugin.html"} <= pages
    assert not any("cli" in page or "listening" in page for page in pages)  # the public surface alone
    hooks = (tmp_path / "lore/pytest_plugin/hooks.html").read_text("utf-8")
    assert 'id="lore_recorder"' in hooks
    assert 'id="pytest_configure"' not in hooks


def test_missing_names_and_files_are_found() -> None:
    text = (
        "`lore.Session` and `lore.store.base.Store` in `base.py`, `lore.Sesion`, `lore.gone.x`, `bse.py`, `lore.caches`"
    )
    assert list(broken_names([("here", text)])) == [
        "here: `lore.Sesion` does not exist",
        "here: `lore.gone.x` does not exist",
        "here: missing file `bse.py`",
    ]
