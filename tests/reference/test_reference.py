"""The module reference is made of the docstrings, and its faults are found."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from reference.build import Page, broken_links, broken_names

BUILD = Path(__file__).parent / "build.py"


@pytest.mark.skipif(find_spec("pdoc") is None, reason="pdoc is not installed: run `make test`")
def test_reference_is_made_without_broken_links(tmp_path) -> None:
    done = subprocess.run([sys.executable, BUILD, tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    pages = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.html")}
    assert {"lore.html", "lore/testing.html", "lore/store/base.html", "lore/pytest_plugin.html"} <= pages
    assert not any("cli" in page or "listening" in page for page in pages)  # the public surface alone
    fixture = Page((tmp_path / "lore/pytest_plugin/hooks.html").read_text("utf-8"))
    assert "lore_recorder" in fixture.anchors
    assert "pytest_configure" not in fixture.anchors


def test_links_that_lead_nowhere_are_found(tmp_path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.html").write_text('<h1 id="there">b</h1><a href="../a.html#gone">x</a>')
    (tmp_path / "a.html").write_text(
        '<a href="sub/b.html#there">1</a><a href="sub/b.html#not-there">2</a><a href="c.html">3</a><a href="#no">4</a>'
        '<a href="https://example.org/x">5</a><div class="docstring"><p>a <T> of <em>x</em></p></div><b>fine</b>'
    )
    assert list(broken_links(tmp_path)) == [
        "a.html: sub/b.html#not-there leads to no anchor",
        "a.html: c.html leads to no page",
        "a.html: #no leads to no anchor",
        "a.html: a docstring holds <em>",
        "a.html: a docstring holds <t>",
        "sub/b.html: ../a.html#gone leads to no anchor",
    ]


def test_missing_names_and_files_are_found() -> None:
    text = (
        "`lore.Session` and `lore.store.base.Store` in `base.py`, `lore.Sesion`, `lore.gone.x`, `bse.py`, `lore.caches`"
    )
    assert list(broken_names([("here", text)])) == [
        "here: `lore.Sesion` does not exist",
        "here: `lore.gone.x` does not exist",
        "here: missing file `bse.py`",
    ]
