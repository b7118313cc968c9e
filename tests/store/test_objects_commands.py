"""The commands over a store of objects: what they do over files, from several machines, and no credential is shown."""

from __future__ import annotations

import sys

import pytest

from cli.running import lore, process, put, session
from cli.storing import answered, appended, exported, store
from lore.run.checking.pool import _method
from lore.store import objects_client, registry
from lore.store.base import StoreError
from lore.store.objects import Objects
from lore.store.registry import open_store, silent
from store.s3_server import CREDENTIALS

pytest.importorskip("obstore")
pytestmark = pytest.mark.usefixtures("desk")
LINE = b'{"kind":"cache_reset","reason":"%b"}'


@pytest.fixture
def url(objects):
    return objects.url("bucket/team/sessions")


def test_a_session_goes_in_and_comes_out_and_is_read_by_every_command(url):
    put("s.jsonl", session())
    imported = answered("import", "s.jsonl", "--project", "p", url=url)
    assert [one["state"] for one in imported["sessions"]] == ["created"]
    assert [one["state"] for one in answered("import", "s.jsonl", "--project", "p", url=url)["sessions"]] == [
        "unchanged"
    ]
    assert exported("s-1", url) == session()
    name = f"{url}#s-1"
    assert lore("fold", name, "--json").json["timeline"] == lore("fold", "s.jsonl", "--json").json["timeline"]
    assert lore("assemble", f"{name}#1").out == lore("assemble", "s.jsonl#1").out
    assert lore("check", url, "--json").json["summary"]["files"] == 1
    assert lore("knowledge", "add", name, "k1", "--title", "t").code == 0
    number = session().count(b"\n") + 2
    for _ in range(2):
        ran = appended("s-1", LINE[:-1] % b"x" + b',"id":%d}' % number, url=url)
        assert (ran.code, ran.lines) == (0, [{"session_id": "s-1", "id": number}])
    assert answered("show", "s-1", url=url)["session"]["events"] == number
    assert store("bind", "c", "s-1", url=url).code == 0
    assert process("store", "resolve", "c", "--store", url).out == "s-1\n"
    assert answered("verify", url=url)["damage"] == []
    assert store("vacuum", url=url).code == 0
    assert answered("delete", "s-1", url=url, schema="store-written")["session_ids"] == ["s-1"]
    ran = lore("fold", name)
    assert ran.code == 2
    assert f"--store '{open_store(url).url}'" in ran.err  # a shell takes & for its own


def test_a_whole_store_is_judged_by_several_processes(url):
    for number in range(4):
        put(f"{number}.jsonl", session().replace(b"s-1", b"s-%d" % number))
    answered("import", *(f"{number}.jsonl" for number in range(4)), url=url)
    ran = process("check", url, "--jobs", "3", "--json")
    assert ran.code == lore("check", url, "--jobs", "1").code
    assert ran.json["summary"]["files"] == 4


def test_processes_are_not_forked_once_the_client_is_there(url):
    """Its threads stay behind: a forked process that asked it would wait for ever."""
    open_store(url)
    assert _method() == "spawn"


def test_a_credential_is_in_no_answer(url, objects, monkeypatch):
    monkeypatch.setitem(objects_client.RETRIES, "max_retries", 1)  # how often it asks changes no sentence
    appended("s-1", b'{"kind":"session_started","v":1,"session_id":"s-1"}', url=url)
    for failure in (None, "denied", "refused"):
        objects.fail = lambda _, failure=failure: failure
        for words in (("store", "list", "--store", url), ("fold", f"{url}#s-1"), ("check", url, "-v")):
            ran = lore(*words)
            assert ran.out + ran.err
            assert not any(value in ran.out + ran.err for value in CREDENTIALS.values())
            assert ran.code in ((0,) if failure is None else (2, 3)), words
            assert "Traceback" not in ran.err


@pytest.mark.parametrize("url", ["s3://key:hunter2@bucket/x", "s3://bucket/x?secret_access_key=hunter2"])
def test_a_url_with_a_credential_is_refused_and_not_shown(url):
    for words in (("store", "list", "--store", url), ("fold", f"{url}#s"), ("check", url)):
        ran = lore(*words)
        assert ran.code == 2, words
        assert "hunter2" not in ran.out + ran.err, words


def test_without_the_client_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(StoreError, match="client for objects") as error:
        Objects.open("s3://bucket/x", silent)
    assert error.value.hint == "pip install 'lore-cache[remote]'"
    assert registry.scheme_of("s3://bucket/x") == "s3"
