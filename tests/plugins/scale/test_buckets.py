"""Commands with recordings in a bucket: the same output as with files, and errors of the service."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.running import lore, put, session
from conftest import ROOT
from helpers.matrix import some
from lore.errors import LoreError
from lore.recording import filesystem, inputs
from lore_plugins.scale.remote import masked_message

FOLDERS = ("claude-code", "captures/inspect", "captures/litellm", "sessions")
_FINGERPRINT = re.compile(r'"fingerprint":"[^"]*"')  # it depends on the path
SESSION = "claude-code/subagents_folder/8e4d2b90-61f7-4a0e-b3c8-1d5a7f60e2b4.jsonl"


def fill(bucket, folder: Path) -> None:
    """Put the files of a folder into the bucket, in `p/`."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            bucket.keep(f"b/p/{file.relative_to(folder).as_posix()}", file.read_bytes(),
                        modified=file.stat().st_mtime)  # fmt: skip


@pytest.fixture
def both(bucket, tmp_path):
    """A folder of recordings of many kinds, and a copy in the bucket."""
    for name in FOLDERS:
        shutil.copytree(ROOT / "fixtures" / name, tmp_path / "p" / name)
    os.mkdir(tmp_path / "p" / ".hidden")
    put("p/.hidden/s.jsonl", session())
    put("p/readme.md", b"# nothing\n")
    put(
        "p/claude-code.jsonl", session(session_id="s-2")
    )  # comes before the folder `claude-code` and after `claude-code-2`
    put("p/claude-code-2/s.jsonl", session(session_id="s-3"))
    for file in (tmp_path / "p").rglob("*.*"):
        if file.is_file():  # remote files are ordered by their last change, local ones by the first time in them
            start = inputs.start_of(inputs.Input(str(file), is_named=True))[0]
            os.utime(file, (0, 2_000_000_000 if start is None else start))
    fill(bucket, tmp_path / "p")
    return bucket


def same(command, *, bucket="b"):
    """Run a command with the bucket and with the folder; return exit codes and texts, with the same names."""
    there, local = (lore(*command.replace("@", root).split()) for root in (f"s3://{bucket}/p", "p"))
    assert local.out
    return [(ran.code, _FINGERPRINT.sub("", ran.out.replace(f"s3://{bucket}/p", "p"))) for ran in (there, local)]


COMMANDS = (
    "check @ --json",
    f"fold @/{SESSION} --json",
    f"diff-prefix @/{SESSION}#1 @/{SESSION}#2 --json",
    "assemble @/sessions/rewind.jsonl",
    "check @/captures/inspect/stable.eval --json",
    "check @/**/*.jsonl --json",
    "check @/*/*/ --json",
    f"check @/{SESSION} --json",
    "simulate @/captures --json",
    "lint @/captures --json",
    f"convert @/{SESSION} --to lore",
    "compare @/claude-code @/sessions --json",
    "compact @/sessions/rewind.jsonl --dry-run --json",
    "report @/captures --format trace --output -",
)


@pytest.mark.parametrize("command", some(COMMANDS, 5))
def test_bucket_gives_the_same_output_as_files(both, command):
    assert both
    there, local = same(command)
    assert there == local


def test_moto_gives_the_same_output_as_files(moto, tmp_path):
    shutil.copytree(ROOT / "fixtures" / "claude-code", tmp_path / "p")
    moto.create_bucket(Bucket="logs")
    for file in (tmp_path / "p").rglob("*.jsonl"):
        moto.put_object(Bucket="logs", Key=f"p/{file.relative_to(tmp_path / 'p').as_posix()}", Body=file.read_bytes())
    moto.put_object(Bucket="logs", Key="p/empty/", Body=b"")  # a folder, as the web console makes it
    for command in ("check @ --json", "check @/**/*.jsonl --json", f"fold @/{SESSION.removeprefix('claude-code/')}"):
        there, local = same(command, bucket="logs")
        assert there == local
    assert "no bucket" in lore("fold", "s3://missing/p.jsonl").err
    assert "no such object" in lore("fold", "s3://logs/none.jsonl").err


def test_pages_of_a_list_come_in_folder_order(bucket, tmp_path):
    bucket.page = 7
    names = [f"{folder}{name}.jsonl" for folder in ("", "a/", "a-b/", "a/c/", "é/") for name in ("x", "y", "a", "10")]
    for name in names:
        put(f"p/{name}", session())
    fill(bucket, tmp_path / "p")
    found = [file.path for file in inputs.inputs(["s3://b/p"])]
    assert [name.removeprefix("s3://b/") for name in found] == [file.path for file in inputs.inputs(["p"])]
    assert len(found) == len(names)


def test_since_opens_no_older_object(bucket):
    bucket.keep("b/p/old.jsonl", session(), modified=1_600_000_000)
    bucket.keep("b/p/new.jsonl", session(), modified=1_700_000_000)
    with bucket.counted() as requests:
        ran = lore("check", "s3://b/p", "--since", "2023-01-01", "--json")
    assert ran.json["summary"]["files"] == 1
    assert ("GET", "p/new.jsonl") in requests
    assert not [key for _, key in requests if key == "p/old.jsonl"]


@pytest.mark.parametrize("failure", ["refused", "error", "torn"])
def test_failed_request_is_sent_again(bucket, failure):
    put("s.jsonl", large := session() * 200)
    bucket.keep("b/p/s.jsonl", large)
    failures = iter([failure])
    bucket.fail = lambda request: next(failures, None) if request.key == "p/s.jsonl" else None
    there = lore("fold", "s3://b/p/s.jsonl", "--json")
    assert there.out == lore("fold", "s.jsonl", "--json").out.replace("s.jsonl", "s3://b/p/s.jsonl")
    assert next(failures, None) is None


def test_object_that_always_fails_is_named(bucket, monkeypatch):
    monkeypatch.setattr("s3fs.core.S3FileSystem.retries", 2)  # more of them wait longer and longer
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    bucket.keep("b/p/s.jsonl", session())
    bucket.keep("b/p/t.jsonl", session())
    bucket.fail = lambda request: "error" if request.key == "p/s.jsonl" else None
    ran = lore("fold", "s3://b/p/s.jsonl")
    assert ran.code == 2
    assert "cannot read s3://b/p/s.jsonl: " in ran.err
    folder = lore("check", "s3://b/p", "--json")
    assert folder.code == 3, "only one of two can be checked"
    assert (folder.json["summary"]["files"], folder.json["summary"]["problems"]) == (1, 1)


def test_object_that_changes_while_read_is_an_error(bucket):
    large = session() * 30_000  # needs more than one request
    bucket.keep("b/p/s.jsonl", large)

    def change(request):
        if request.method == "GET" and request.key == "p/s.jsonl":
            bucket.keep("b/p/s.jsonl", large.replace(b"s-1", b"s-2"))

    bucket.fail = change
    ran = lore("fold", "s3://b/p/s.jsonl")
    assert ran.code == 2
    assert "cannot read s3://b/p/s.jsonl" in ran.err


@pytest.mark.parametrize(("command", "denied", "right"), [
    (("fold", "s3://b/p/s.jsonl"), lambda request: bool(request.key), "s3:GetObject"),
    (("check", "s3://b/p/"), lambda request: not request.key, "s3:ListBucket"),
])  # fmt: skip
def test_missing_permission_is_named(bucket, command, denied, right):
    bucket.keep("b/p/s.jsonl", session())
    bucket.fail = lambda request: "denied" if denied(request) else None
    ran = lore(*command)
    assert ran.code == 2
    assert right in ran.err
    assert "a secret" not in ran.err
    assert "AKIAIOSFODNN7" not in ran.err


def test_readable_file_needs_no_right_to_list(bucket):
    bucket.keep("b/p/s.jsonl", session())
    bucket.fail = lambda request: "denied" if request.key != "p/s.jsonl" else None
    assert lore("check", "s3://b/p/s.jsonl", "--json").json["summary"]["files"] == 1


@pytest.mark.parametrize(("name", "says"), [
    ("s3://b/p/none.jsonl", "there is no such object"),
    ("s3://b/p", "is not a file"),
    ("s3://other/p.jsonl", "there is no bucket other"),
    ("s3://", "names no bucket"),
    ("s3://user:secret@b/p", "may not contain credentials"),
])  # fmt: skip
def test_name_that_cannot_be_read_is_explained(bucket, name, says):
    bucket.keep("b/p/s.jsonl", session())
    ran = lore("fold", name)
    assert ran.code == 2
    assert says in ran.err
    assert "secret" not in ran.err


def test_empty_folder_and_pattern_are_errors(bucket):
    bucket.keep("b/p/s.jsonl", session())
    assert "nothing matches" in lore("check", "s3://b/q/*.jsonl").err
    assert "no recordings in s3://b/q/" in lore("check", "s3://b/q/").err


def test_name_may_have_a_turn_or_number_sign(bucket):
    bucket.keep("b/p/s#1.jsonl", session())
    bucket.keep("b/p/s.jsonl", session())
    assert lore("assemble", "s3://b/p/s.jsonl#1").code == 0
    assert lore("fold", "s3://b/p/s#1.jsonl").code == 0


def test_nothing_is_written_to_a_bucket(bucket):
    bucket.keep("b/p/s.jsonl", session())
    put("s.jsonl", session())
    for args in (
        ("convert", "s.jsonl", "--to", "lore", "--output", "s3://b/out.jsonl"),
        ("check", "s.jsonl", "--report", "json=s3://b/out.json"),
        ("check", "s.jsonl", "--baseline", "s3://b/base.json", "--update-baseline"),
        ("knowledge", "add", "s3://b/p/s.jsonl", "k", "--title", "t"),
    ):
        ran = lore(*args)
        assert ran.code == 2, args
        assert "this machine only" in ran.err or "remote" in ran.err, (args, ran.err)
    assert not [method for method, _ in bucket.requests if method not in ("GET", "HEAD")]


def test_database_is_not_read_remotely(bucket):
    tables = b"CREATE TABLE session(id) CREATE TABLE message(id) CREATE TABLE part(id)"
    bucket.keep("b/p/opencode.db", b"SQLite format 3\x00" + tables)
    bucket.keep("b/p/other.db", b"SQLite format 3\x00" + bytes(100))
    ran = lore("fold", "s3://b/p/opencode.db")
    assert ran.code == 2
    assert "a database of sessions, which cannot be read remotely" in ran.err
    assert lore("check", "s3://b/p").code == 2  # nothing was judged


def test_hostile_names_are_shown_and_odd_ones_reported(bucket):
    bucket.keep("b/p/good.jsonl", session())
    for name in ("a\n::error::b.jsonl", "\x1b[31mred.jsonl", "/double.jsonl", "../up.jsonl", "./dot.jsonl"):
        bucket.keep(f"b/p/{name}", session())
    ran = lore("check", "s3://b/p", "--json")
    assert ran.code == 3
    assert (ran.json["summary"]["files"], ran.json["summary"]["problems"]) == (3, 1)
    assert "empty part" in ran.out
    text = lore("check", "s3://b/p")
    assert "\x1b[31m" not in text.out + text.err
    assert "\n::error" not in text.out + text.err


def test_listed_names_stay_in_their_folder(bucket):
    for key in ("p/../up.jsonl", "p/./dot.jsonl", "up.jsonl", "p/a.jsonl"):
        bucket.keep(f"b/{key}", session())
    assert filesystem.names("s3://b/p/") == ["a.jsonl"]
    assert [file.path for file in inputs.inputs(["s3://b/p/*.jsonl"])] == ["s3://b/p/a.jsonl"]
    with pytest.raises(LoreError, match="nothing matches"):
        inputs.inputs(["s3://b/p/.*/*.jsonl"])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AZURE_STORAGE_SAS_TOKEN", "sv=2024&sig=Zm9vYmFy%3D"), ("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0c2VjcmV0"),
        ("GOOGLE_SERVICE_ACCOUNT_KEY", "not json at all"), ("AWS_SESSION_TOKEN", "session-token"),
    ],
)  # fmt: skip
def test_service_message_holds_no_credential(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    said = masked_message(OSError(f"GET https://h/c/k?sv=2024&sig=Zm9vYmFy failed: {value} is wrong"))
    assert value not in said
    assert "Zm9vYmFy" not in said
    assert "https://h/c/k?" in said


def test_small_objects_are_fetched_together(bucket, monkeypatch):
    for number in range(40):
        bucket.keep(f"b/p/{number:02}.jsonl", session())
    files = inputs.inputs(["s3://b/p"])
    with bucket.counted() as requests:
        for number, file in enumerate(inputs.ahead(files)):
            assert len(bucket.requests) <= number + 16 + 40
            assert b"".join(filesystem.remote_pieces(file.path, 1024)) == session()
    assert sorted(requests) == [("GET", f"p/{number:02}.jsonl") for number in range(40)]
    assert not filesystem._FETCHED


def test_local_paths_import_no_client():
    put("s.jsonl", session())
    code = (
        "import sys; from lore.commands.main import main; main(['check', 's.jsonl']); "
        "print([name for name in ('fsspec', 's3fs', 'aiohttp', 'lore_plugins.scale') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
