"""What the last job of a release hands on is what the jobs before it laid there."""

import posixpath
from pathlib import PurePosixPath

import yaml

from release.notes import ROOT

JOBS = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))["jobs"]


def laid(upload: dict) -> list[str]:
    """Return the paths of an artifact's files once all are downloaded: relative to their common folder.

    A pattern counts as its folder, a name as itself: so `actions/upload-artifact` looks for the common folder.
    """
    paths = upload["path"].split()
    roots = sorted({str(PurePosixPath(path).parent) if "*" in path else path for path in paths})
    common = posixpath.commonpath([f"/{root}" for root in roots])
    return [posixpath.join(upload["name"], posixpath.relpath(f"/{path}", common)) for path in paths]


def is_named(file: str, pattern: str) -> bool:
    """Return whether a shell's pattern matches a file: its star stops at a slash."""
    return PurePosixPath(f"/{file}").match(f"/{pattern}")


def test_release_files_are_named_for_download():
    uploads = [step["with"] for step in JOBS["build"]["steps"] if "upload-artifact" in step.get("uses", "")]
    files = [file.replace("*", "x") for upload in uploads for file in laid(upload)]
    words = JOBS["announce"]["steps"][-1]["run"].split()
    named = [word for word in words if word.startswith(tuple(f"{upload['name']}/" for upload in uploads))]
    assert named
    assert [word for word in named if not any(is_named(file, word) for file in files)] == []
    assert [file for file in files if not any(is_named(file, word) for word in named)] == []
