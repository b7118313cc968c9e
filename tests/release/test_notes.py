"""The notes of a release are its section of the changelog."""

import pytest

from release.notes import ROOT, main, notes, packaged

NEW, OLD = "## 0.2.0 (unreleased)\n\n- new\n\n", "## 0.1.0 (2026-12-01)\n\n- one\n  more\n- two\n\n## 0.0.9\n\n"
LOG = f"# Changes\n\nA promise.\n\n{NEW}{OLD}"


def test_section_of_a_tag_is_printed_without_heading():
    assert notes(LOG, "v0.1.0") == "- one\n  more\n- two\n"


@pytest.mark.parametrize(
    ("tag", "said"), [("v0.2.0", "unreleased"), ("v0.1", "no section"), ("v0.0.9", "empty"), ("v0x1.0", "no section")]
)
def test_unpublishable_section_is_refused(tag, said):
    with pytest.raises(ValueError, match=said):
        notes(LOG, tag)


def test_tag_other_than_package_version_is_refused(capsys):
    assert main(["v99.0.0"]) == 1
    assert capsys.readouterr().err == f"error: the tag is v99.0.0, the package is {packaged()}\n"


def test_changelog_has_section_for_the_package_version():
    assert f"\n## {packaged()}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
