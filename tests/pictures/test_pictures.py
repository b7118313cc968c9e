"""The pictures of the README show lore's current output, are small, and load nothing."""

import xml.etree.ElementTree as ET

import pytest
from rich.text import Text

from pictures.make import FOLDER, PICTURES, REPORT, ROOT, printed, report

README = (ROOT / "README.md").read_text("utf-8")


def test_every_picture_has_a_text_alternative():
    names = {path.name for path in FOLDER.iterdir()}
    assert names == {f"{picture.name}.svg" for picture in PICTURES} | {f"{REPORT}.svg"}
    for name in names:
        assert f"](.github/pictures/{name})" in README
        assert f"![](.github/pictures/{name})" not in README


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_picture_shows_the_printed_output(picture):
    """If this fails: `make pictures`."""
    drawn = ET.parse(FOLDER / f"{picture.name}.svg")
    shown = "".join(drawn.getroot().find(f".//{{*}}g[@class='{picture.name}-matrix']").itertext())
    assert "".join(shown.split()) == "".join(Text.from_ansi(printed(picture)).plain.split())


def test_picture_of_the_page_equals_the_page():
    """If this fails: `make pictures`."""
    drawn, now = ET.parse(FOLDER / f"{REPORT}.svg").getroot(), ET.fromstring(report())
    assert ["".join(text.itertext()) for text in drawn.iter("{*}text")] == [
        "".join(text.itertext()) for text in now.iter("{*}text")
    ]
    assert [path.get("d") for path in drawn.iter("{*}path")] == [path.get("d") for path in now.iter("{*}path")]


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_picture_is_small_and_loads_nothing(path):
    text = path.read_text("utf-8")
    assert len(text) < 20_000
    assert text.count("://") == 1, "the name of SVG itself"
    assert "<script" not in text


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_picture_needs_no_css_variables(path):
    """A renderer like librsvg knows none."""
    assert "var(" not in path.read_text("utf-8")
