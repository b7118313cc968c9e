"""Commands over recordings in a bucket: the same answers as over files, and what goes wrong on the way."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from cli.running import lore, put, session
from conftest import ROOT
from lore.errors import LoreError
from lore.judge.policy import Budgets
from lore.recording import filesystem, inputs, remote
from lore.recording.opening import Options
from lore.recording.remote import tree as remote_tree
from lore.recording.remote.objects import plain
from lore.run.checking.check import check

pytest.importorskip("obstore")
FOLDERS = ("claude-code", "captures", "sessions")
_FINGERPRINT = re.compile(r'"fingerprint":"[^"]*"')  # it is made of the path, too


def fill(bucket, folder: Path, prefix: str = "p") -> None:
    """Put the files of a folder into the bucket."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            bucket.keep(f"b/{prefix}/{file.relative_to(folder).as_posix()}", file.read_bytes(),
                        modified=file.stat().st_mtime)  # fmt: skip


@pytest.fixture
def both(bucket, tmp_path):
    """A folder of recordings of many kinds, and the same in the bucket."""
    for name in FOLDERS:
        shutil.copytree(ROOT / "fixtures" / name, tmp_path / "p" / name)
    os.mkdir(tmp_path / "p" / ".hidden")
    put("p/.hidden/s.jsonl", session())
    put("p/readme.md", b"# nothing\n")
    put("p/claude-code.jsonl", session())  # a file sorts before the folder `claude-code` and behind `claude-code-2`
    put("p/claude-code-2/s.jsonl", session())
    fill(bucket, tmp_path / "p")
    return bucket


SESSION = "claude-code/subagents_folder/8e4d2b90-61f7-4a0e-b3c8-1d5a7f60e2b4.jsonl"


@pytest.mark.parametrize(
    "command",
    [
        "check @ --json",
        "check @/**/*.jsonl --json",
        "check @/*/*/ --json",
        f"check @/{SESSION} --json",
        "simulate @/captures --json",
        "lint @/captures --json",
        f"fold @/{SESSION} --json",
        f"convert @/{SESSION} --to lore",
        f"diff-prefix @/{SESSION}#1 @/{SESSION}#2 --json",
        "compare @/claude-code @/sessions --json",
        "compact @/sessions/rewind.jsonl --dry-run --json",
        "assemble @/sessions/rewind.jsonl",
        "report @/captures --format trace --output -",
        "check @/captures/inspect/stable.eval --json",
    ],
)
def test_the_answer_is_that_over_files_but_for_the_names(both, command):
    assert both
    there, local = (lore(*command.replace("@", root).split()) for root in ("s3://b/p", "p"))
    texts = [_FINGERPRINT.sub("", ran.out.replace("s3://b/p", "p")) for ran in (there, local)]
    assert (there.code, texts[0]) == (local.code, texts[1])
    assert local.out


def test_a_folder_is_listed_once_in_pages_and_each_recording_read_once(both):
    with both.counted() as requests:
        assert lore("check", "s3://b/p/claude-code", "s3://b/p/sessions", "--json").code in (0, 1)
    keys = [key for method, key in requests if method == "GET" and key.endswith(".jsonl")]
    files = [key for key in both.objects["b"] if key.startswith(("p/claude-code/", "p/sessions/"))]
    assert sorted(keys) == sorted(files)
    assert not [key for method, key in requests if method == "HEAD" and key.endswith(".jsonl")]


def test_a_thousand_names_come_in_pages_and_in_the_order_of_a_folder(bucket, tmp_path):
    bucket.page = 7
    names = [f"{folder}{name}.jsonl" for folder in ("", "a/", "a-b/", "a/c/", "é/") for name in ("x", "y", "a", "10")]
    for name in names:
        put(f"p/{name}", session())
    fill(bucket, tmp_path / "p")
    found = [file.path for file in inputs.inputs(["s3://b/p"])]
    assert [name.removeprefix("s3://b/") for name in found] == [file.path for file in inputs.inputs(["p"])]
    assert len(found) == len(names)


def test_since_goes_by_the_times_of_the_list_and_opens_nothing_else(bucket):
    bucket.keep("b/p/old.jsonl", session(), modified=1_600_000_000)
    bucket.keep("b/p/new.jsonl", session(), modified=1_700_000_000)
    with bucket.counted() as requests:
        ran = lore("check", "s3://b/p", "--since", "2023-01-01", "--json")
    assert ran.json["summary"]["files"] == 1
    assert ("GET", "p/new.jsonl") in requests
    assert not [key for _, key in requests if key == "p/old.jsonl"]


@pytest.mark.parametrize("failure", ["refused", "error", "torn"])
def test_a_request_that_is_throttled_or_breaks_off_is_gone_on_with(bucket, failure):
    put("s.jsonl", large := session() * 200)
    bucket.keep("b/p/s.jsonl", large)
    failures = iter([failure, failure, failure])
    bucket.fail = lambda request: next(failures, None) if request.key == "p/s.jsonl" else None
    there = lore("fold", "s3://b/p/s.jsonl", "--json")
    assert there.out == lore("fold", "s.jsonl", "--json").out.replace("s.jsonl", "s3://b/p/s.jsonl")
    assert next(failures, None) is None


def test_what_is_throttled_for_ever_is_an_error_that_names_it(bucket):
    bucket.keep("b/p/s.jsonl", session())
    bucket.keep("b/p/t.jsonl", session())
    bucket.fail = lambda request: "refused" if request.key == "p/s.jsonl" else None
    ran = lore("fold", "s3://b/p/s.jsonl")
    assert ran.code == 2
    assert "cannot read s3://b/p/s.jsonl: " in ran.err
    assert "SlowDown" in ran.err or "503" in ran.err
    folder = lore("check", "s3://b/p", "--json")
    assert folder.code == 3, "one of a folder cannot be judged, and the other is"
    assert (folder.json["summary"]["files"], folder.json["summary"]["problems"]) == (1, 1)


def test_an_object_that_drips_is_asked_for_a_few_times_and_given_up(bucket, monkeypatch):
    put("s.jsonl", log := session() * 10)
    bucket.keep("b/p/s.jsonl", log)
    bucket.fail = lambda request: "dripped" if request.key == "p/s.jsonl" and request.method == "GET" else None
    monkeypatch.setattr("lore.recording.remote.objects.TIMEOUT", timedelta(seconds=0.3))
    with bucket.counted() as requests:
        ran = lore("fold", "s3://b/p/s.jsonl")
    assert ran.code == 2
    assert "cannot read s3://b/p/s.jsonl" in ran.err
    assert 1 < requests.count(("GET", "p/s.jsonl")) <= remote.TRIES * 3, "each is sent twice more by the client"


def test_an_object_that_changes_while_it_is_read_is_an_error_of_that_input(bucket):
    old, new = session() * 3000, session().replace(b"s-1", b"s-2") * 3000
    bucket.keep("b/p/s.jsonl", old)
    seen = []

    def fail(request):
        if request.method == "GET" and request.key == "p/s.jsonl":
            seen.append(request.headers.get("if-match"))
            if len(seen) == 1:
                return "torn"
            if len(seen) == 2:
                bucket.keep("b/p/s.jsonl", new)
        return None

    bucket.fail = fail
    ran = lore("fold", "s3://b/p/s.jsonl")
    assert ran.code == 2
    assert "s3://b/p/s.jsonl: it changed while it was read" in " ".join(ran.err.split())
    assert len(seen) >= 2
    assert any(seen), "the rest is asked for on a condition"


@pytest.mark.parametrize(
    ("denied", "right"),
    [(lambda request: bool(request.key), "s3:GetObject"), (lambda request: not request.key, "s3:ListBucket")],
)
def test_a_missing_permission_is_named(bucket, denied, right):
    bucket.keep("b/p/s.jsonl", session())
    bucket.fail = lambda request: "denied" if denied(request) else None
    ran = lore(
        "fold" if right == "s3:GetObject" else "check", "s3://b/p/s.jsonl" if right == "s3:GetObject" else "s3://b/p/"
    )
    assert ran.code == 2
    assert right in ran.err
    assert "a secret" not in ran.err
    assert "AKIAIOSFODNN7" not in ran.err


def test_a_file_that_may_be_read_needs_no_right_to_list(bucket):
    bucket.keep("b/p/s.jsonl", session())
    bucket.fail = lambda request: "denied" if request.key != "p/s.jsonl" else None
    assert lore("check", "s3://b/p/s.jsonl", "--json").json["summary"]["files"] == 1


def test_what_is_not_there_is_said(bucket):
    bucket.keep("b/p/s.jsonl", session())
    for name, says in {
        "s3://b/p/none.jsonl": "there is no such object",
        "s3://b/p": "is not a file",
        "s3://other/p.jsonl": "there is no bucket other",
        "s3://": "names no bucket",
        "s3://user:secret@b/p": "holds no credentials",
        "s3://b/" + "x" * 100_000: "more than 1,024 bytes",
    }.items():
        ran = lore("fold", name)
        assert ran.code == 2, name[:80]
        assert says in ran.err, name[:80]
        assert "secret" not in ran.err
        assert len(ran.err) < 1500
    assert "nothing matches" in lore("check", "s3://b/q/*.jsonl").err
    assert "no recordings in s3://b/q/" in lore("check", "s3://b/q/").err


def test_a_turn_and_a_name_with_a_sign_of_turns(bucket):
    bucket.keep("b/p/s#1.jsonl", session())
    bucket.keep("b/p/s.jsonl", session())
    assert lore("assemble", "s3://b/p/s.jsonl#1").code == 0
    assert lore("fold", "s3://b/p/s#1.jsonl").code == 0


def test_a_file_that_is_named_is_looked_at_twice_and_read_once(bucket):
    bucket.keep("b/p/s.jsonl", session())
    with bucket.counted() as requests:
        assert lore("check", "s3://b/p/s.jsonl").code == 0
    assert requests.count(("HEAD", "p/s.jsonl")) == 2, "whether it is one, and what is known of it"
    assert requests.count(("GET", "p/s.jsonl")) == 1


def test_a_listing_keeps_in_memory_what_is_wanted_alone(bucket):
    """Each name is seen, those that are older are dropped as they come, and pages are read as they are used."""
    for number in range(50):
        bucket.keep(f"b/p/{number:02}.jsonl", b"", modified=1_600_000_000 + number)
    seen = []

    def wanted(file):
        seen.append(file.written)
        return file.written >= 1_600_000_049

    assert [file.path for file in inputs.inputs(["s3://b/p"], wanted)] == ["s3://b/p/49.jsonl"]
    assert len(seen) == 50
    with remote.listing("s3://b/p/") as tree:
        names = tree.files("p/")
        assert next(names).key == "00.jsonl"
        assert "49.jsonl" in remote_tree.Names(tree, "p/")


@pytest.mark.parametrize("place", ["s3://b/p/", "p"])
def test_each_file_is_asked_for_once_whether_it_is_wanted(bucket, place):
    """Of a remote file both the list of inputs and `lore check` asked."""
    for name in ("a", "b", "c"):
        put(f"p/{name}.jsonl", session(session_id=name))
        bucket.keep(f"b/p/{name}.jsonl", session(session_id=name))
    asked = []
    result = check([place], Budgets(), Options(), wanted=lambda file: asked.append(file.path) or file.path[-7] != "b")
    assert [path[-7] for path in asked] == ["a", "b", "c"]
    assert result.result.summary.files == 2


def test_nothing_is_written_there(bucket):
    bucket.keep("b/p/s.jsonl", session())
    put("s.jsonl", session())
    for args in (
        ("convert", "s.jsonl", "--to", "lore", "--output", "s3://b/out.jsonl"),
        ("check", "s.jsonl", "--report", "json=s3://b/out.json"),
        ("check", "s.jsonl", "--baseline", "s3://b/base.json", "--update-baseline"),
        ("knowledge", "add", "s3://b/p/s.jsonl", "k", "--title", "t"),
        ("fold", "s3://b/p/s.jsonl", "--follow"),
    ):
        ran = lore(*args)
        assert ran.code == 2, args
        assert "this machine only" in ran.err or "remote" in ran.err, (args, ran.err)
    assert not [method for method, _ in bucket.requests if method in ("PUT", "POST", "DELETE")]


def test_a_database_is_not_read_from_afar(bucket):
    tables = b"CREATE TABLE session(id) CREATE TABLE message(id) CREATE TABLE part(id)"
    bucket.keep("b/p/opencode.db", b"SQLite format 3\x00" + tables)
    bucket.keep("b/p/other.db", b"SQLite format 3\x00" + bytes(100))
    ran = lore("fold", "s3://b/p/opencode.db")
    assert ran.code == 2
    assert "a database of sessions, which cannot be read remotely" in ran.err
    assert lore("check", "s3://b/p").code == 3


HOSTILE = ("p/a\n::error::b.jsonl", "p/\x1b[31mred.jsonl", "p//double.jsonl", "p/../up.jsonl", "p/./dot.jsonl")


def test_names_that_one_client_refuses_are_left_to_the_other(bucket, monkeypatch):
    pytest.importorskip("s3fs")
    bucket.keep("b/p/good.jsonl", session())
    for name in HOSTILE:
        bucket.keep(f"b/{name}", session())
    ran = lore("check", "s3://b/p", "--json")
    assert ran.code == 3, "the empty part of a name is told"
    assert (ran.json["summary"]["files"], ran.json["summary"]["problems"]) == (3, 1)
    assert "empty part" in ran.out
    text = lore("check", "s3://b/p")
    assert "\x1b[31m" not in text.out + text.err
    assert "\n::error" not in text.out + text.err


def test_a_list_that_holds_what_nobody_asked_for_is_that_of_its_folder(bucket, monkeypatch):
    """A size past 64 bits was "a bug in lore", and a name outside of the folder made one of another name in it."""
    bucket.keep("b/p/a.jsonl", session())
    with remote.listing("s3://b/p/") as tree:
        tree.add([
            remote.RemoteEntry("p/huge.jsonl", remote.Status(2**64 - 1, 1.0, "t")),
            remote.RemoteEntry("qq/evil/x.jsonl", remote.Status(1, 1.0, "t")),
            remote.RemoteEntry("etc/passwd", remote.Status(1, 1.0, "t")),
        ])  # fmt: skip
        walked = [(folder, names, sorted(files)) for folder, names, files in tree.walk("s3://b/p/", pytest.fail)]
        assert walked == [("s3://b/p/", [], ["a.jsonl", "huge.jsonl"])]
        monkeypatch.setattr(remote_tree, "MOST", 2)
        with pytest.raises(remote.RemoteError, match="more than 2 objects"):
            tree.add(remote.RemoteEntry(f"p/{number}", remote.Status()) for number in itertools.count())


def test_no_name_of_a_list_leads_out_of_its_folder(bucket):
    pytest.importorskip("s3fs")
    for key in ("p/../up.jsonl", "p/./dot.jsonl", "up.jsonl", "p/a.jsonl"):
        bucket.keep(f"b/{key}", session())
    assert filesystem.names("s3://b/p/") == ["a.jsonl"]
    assert [file.path for file in inputs.inputs(["s3://b/p/", "s3://b/p/*.jsonl"])] == ["s3://b/p/a.jsonl"]
    with pytest.raises(LoreError, match="nothing matches"):
        inputs.inputs(["s3://b/p/.*/*.jsonl"])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AZURE_STORAGE_SAS_TOKEN", "sv=2024&sig=Zm9vYmFy%3D"), ("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0c2VjcmV0"),
        ("GOOGLE_SERVICE_ACCOUNT_KEY", "not json at all"), ("AWS_SESSION_TOKEN", "session-token"),
    ],
)  # fmt: skip
def test_no_error_of_a_service_holds_a_credential(monkeypatch, name, value):
    """Those of S3 alone were taken out of what a client says."""
    monkeypatch.setenv(name, value)
    said = plain(OSError(f"GET https://h/c/k?sv=2024&sig=Zm9vYmFy failed: {value} is wrong"))
    assert value not in said
    assert "Zm9vYmFy" not in said
    assert "https://h/c/k?" in said


def test_without_that_client_such_a_name_is_said(bucket, monkeypatch):
    for name in HOSTILE[:1]:
        bucket.keep(f"b/{name}", session())
    monkeypatch.setattr("lore.recording.remote.objects.find_spec", lambda name: name == "obstore" or None)
    ran = lore("check", "s3://b/p/")
    assert ran.code == 2
    assert "lore-cache[remote]" in ran.err
    assert "\n::error" not in ran.err


def test_what_is_missing_is_named(bucket, monkeypatch):
    monkeypatch.setattr("lore.recording.remote.objects.find_spec", lambda name: None)
    for scheme, package in {"s3": "s3fs", "gs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}.items():
        ran = lore("fold", f"{scheme}://b/p.jsonl")
        assert ran.code == 2
        assert "pip install 'lore-cache[remote]'" in ran.err
        assert package in ran.err


def test_other_paths_import_no_client(tmp_path):
    put("s.jsonl", session())
    code = (
        "import sys; from lore.cli.main import main; main(['check', 's.jsonl']); "
        "names = ('fsspec', 'obstore', 's3fs', 'httpx', 'lore.recording.remote'); "
        "print([name for name in names if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("client", ["obstore", "fsspec"])
def test_both_clients_read_the_same(both, monkeypatch, client):
    if client == "fsspec":
        pytest.importorskip("s3fs")
    monkeypatch.setenv("LORE_REMOTE", client)
    there, local = (lore("check", f"{root}/claude-code", "--json") for root in ("s3://b/p", "p"))
    assert _FINGERPRINT.sub("", there.out.replace("s3://b/p", "p")) == _FINGERPRINT.sub("", local.out)
    denied = "p/claude-code/none.jsonl"
    both.fail = lambda request: "denied" if request.key == denied else None
    assert "s3:GetObject" in lore("fold", f"s3://b/{denied}").err


def test_small_objects_are_fetched_ahead_and_a_few_at_a_time(bucket, monkeypatch):
    for number in range(40):
        bucket.keep(f"b/p/{number:02}.jsonl", session())
    begun = []
    whole = remote._whole
    monkeypatch.setattr(remote, "_whole", lambda path: begun.append(path) or whole(path))
    files = inputs.inputs(["s3://b/p"])
    for number, file in enumerate(inputs.ahead(files)):
        assert len(begun) <= number + remote.AT_ONCE
        assert filesystem.opened(file.path).read() == session()
    assert sorted(begun) == sorted(file.path for file in files)
    assert not remote._FETCHED


def test_findings_are_redacted(both):
    assert both
    told = lore("check", "s3://b/p/captures", "--json", "--redact").json
    assert json.dumps(told).count("It is 09:1") == 0


@pytest.mark.parametrize("scheme", ["gs", "az", "abfs"])
def test_other_services_are_read_alike(both, monkeypatch, scheme):
    """Google's and Azure's, as far as their protocols are played here: no real one was asked."""
    both.signed = False
    key = {
        "gcs_base_url": both.endpoint,
        "disable_oauth": True,
        "client_email": "",
        "private_key": "",
        "private_key_id": "",
    }
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps(key))
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", both.endpoint)
    for words in ("check @ --json", "check @/**/s*.jsonl --json", f"fold @/{SESSION} --json"):
        there, local = (lore(*words.replace("@", root).split()) for root in (f"{scheme}://b/p", "p"))
        texts = [_FINGERPRINT.sub("", ran.out.replace(f"{scheme}://b/p", "p")) for ran in (there, local)]
        assert texts[0] == texts[1], words
    assert "no such object" in lore("fold", f"{scheme}://b/p/none.jsonl").err
    both.fail = lambda request: "denied"
    ran = lore("fold", f"{scheme}://b/p/claude-code.jsonl")
    assert "not allowed to read" in ran.err


@pytest.mark.parametrize("client", ["obstore", "fsspec"])
def test_another_service_of_s3_gives_the_same_answers(moto, tmp_path, monkeypatch, client):
    pytest.importorskip("obstore" if client == "obstore" else "s3fs")
    monkeypatch.setenv("LORE_REMOTE", client)
    shutil.copytree(ROOT / "fixtures" / "claude-code", tmp_path / "p")
    s3 = moto
    s3.create_bucket(Bucket=client)
    for file in (tmp_path / "p").rglob("*.jsonl"):
        s3.put_object(Bucket=client, Key=f"p/{file.relative_to(tmp_path / 'p').as_posix()}", Body=file.read_bytes())
    s3.put_object(Bucket=client, Key="p/empty/", Body=b"")  # as a console makes a folder
    for words in (
        "check @ --json",
        "check @/**/*.jsonl --json",
        "fold @/" + SESSION.removeprefix("claude-code/"),
    ):
        there, local = (lore(*words.replace("@", root).split()) for root in (f"s3://{client}/p", "p"))
        texts = [_FINGERPRINT.sub("", ran.out.replace(f"s3://{client}/p", "p")) for ran in (there, local)]
        assert texts[0] == texts[1], words
    assert "no bucket" in lore("fold", "s3://missing/p.jsonl").err
    assert "no such object" in lore("fold", f"s3://{client}/none.jsonl").err
