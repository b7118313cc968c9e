"""A cluster gives what one process gives; a worker that dies costs its tasks, one that is another lore is refused."""

from __future__ import annotations

import os
import socket
import ssl
import sys
from urllib.parse import urlsplit

import pytest

from cli.running import lore
from lore.errors import LoreError
from lore.judge.policy import Budgets
from lore.model.results import Interrupted
from lore.recording.inputs import Input
from lore.recording.opening import Options
from lore.run.checking import cluster
from lore.run.checking.check import check
from lore.run.checking.cluster import Cluster, Worker, differ, packed
from lore.run.checking.program import program
from run.logs import put_logs

distributed = pytest.importorskip("distributed")
probe = cluster._probe
pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="signals"),
    pytest.mark.filterwarnings("ignore"),  # Dask's own
]


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory):
    """Two workers, each a process with one thread, in a folder of recordings."""
    import dask

    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("logs"))
    put_logs()
    paths = os.pathsep.join(filter(None, sys.path))
    settings = {**cluster.LOCAL_SETTINGS, "distributed.scheduler.allowed-failures": 0}
    with dask.config.set(settings), distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0",
        silence_logs=50, env={"PYTHONPATH": paths},
    ) as local:  # fmt: skip
        yield local.scheduler_address
    os.chdir(before)


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Workers that were killed start again in their own time where the machine is busy."""
    monkeypatch.setattr(cluster, "JOIN_SECONDS", 300)


@pytest.fixture
def small_tasks(monkeypatch):
    monkeypatch.setattr(cluster, "TASK_FILES", 3)


COMMANDS = (
    ("check", "logs", "--json"),
    ("check", "-v", "logs", "--redact", "--min-reuse", "1", "--max-breaks", "0"),
    ("check", "logs/c", "logs/f.txt", "logs/none"),
    ("check", "logs/c", "logs/e.jsonl", "--json"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=range(len(COMMANDS)))
def test_the_answer_is_that_of_one_process(scheduler, small_tasks, command):
    once = lore(*command, "--jobs", "1")
    assert lore(*command, "--cluster", scheduler) == once
    assert once.code != 70


def test_a_baseline_holds(scheduler, small_tasks, tmp_path):
    known = str(tmp_path / "known.json")
    lore("check", "logs", "--baseline", known, "--update-baseline", "--cluster", scheduler)
    args = ("check", "logs", "--json", "--baseline", known)
    once = lore(*args)
    assert lore(*args, "--cluster", scheduler) == once


def _killing(judge_task):
    """Judge, but kill the worker that has this file: always, or where a mark says that it did not happen yet."""

    def judge(files, config, **named):
        import os

        for name, mark in (("a/fork.jsonl", ""), ("c/3.jsonl", "died")):
            if any(file.path.endswith(name) for file in files) and not (mark and os.path.exists(mark)):
                if mark:
                    open(mark, "w").close()
                os.kill(os.getpid(), 9)
        return judge_task(files, config, **named)

    return judge


def test_a_worker_that_dies_costs_its_tasks_and_a_file_that_kills_is_named(scheduler, small_tasks, monkeypatch):
    """A file was named whose worker died of something else while it had it alone: it is tried once more."""
    monkeypatch.setattr(cluster, "judge_task", _killing(cluster.judge_task))
    ran = lore("check", "logs", "--json", "--cluster", scheduler)
    assert ran.code != 2, ran.err
    whole = lore("check", "logs", "--json").json
    assert os.path.exists("died")
    died = [problem for problem in ran.json["problems"] if "was killed" in problem["message"]]
    assert [(problem["code"], problem["file"]) for problem in died] == [("LORE215", "logs/a/fork.jsonl")]
    assert ran.json["summary"]["files"] == whole["summary"]["files"] - 1


# It ran again, killed the next worker as well, and ended the run as a bug in lore (exit code 70).
def test_a_result_that_is_lost_before_it_is_fetched_is_made_again(scheduler, small_tasks, monkeypatch):
    from distributed import Future, KilledWorker

    lost, fetched = [], Future.result

    def result(self, *args):
        if self.status == "finished" and not lost:
            lost.append(self)
            raise KilledWorker("judge", None, 1)
        return fetched(self, *args)

    monkeypatch.setattr(Future, "result", result)
    ran = lore("check", "logs", "--json", "--cluster", scheduler)
    assert lost
    assert ran.out == lore("check", "logs", "--json").out


def _dying_once(rules):
    """Answer as a worker does, but kill the worker where a mark says that it did not happen yet."""
    answer = probe(rules)

    def die_or_answer():
        import os

        try:
            os.close(os.open("probed", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return answer()
        return os.kill(os.getpid(), 9)

    return die_or_answer


def test_a_worker_that_dies_while_it_is_asked_what_it_is_ends_no_run(scheduler, small_tasks, monkeypatch):
    """A kill in the first second was "cannot judge: Stream is closed", exit code 2."""
    monkeypatch.setattr(cluster, "_probe", _dying_once)
    ran = lore("check", "logs", "--json", "--cluster", scheduler)
    assert os.path.exists("probed")
    assert ran == lore("check", "logs", "--json")


def test_workers_that_cannot_be_reached_are_asked_again(scheduler, monkeypatch):
    """A scheduler answers for one that was just killed `Timed out trying to connect`, which ended the run."""
    asked = distributed.Client.run
    unreached = [OSError("Timed out trying to connect after 3 s"), distributed.comm.CommClosedError("closed")]

    def run(self, *args, **kwargs):
        answers = asked(self, *args, **kwargs)
        return answers if not unreached else {**answers, next(iter(answers)): unreached.pop()}

    monkeypatch.setattr(distributed.Client, "run", run)
    assert lore("check", "logs", "--json", "--cluster", scheduler) == lore("check", "logs", "--json")
    assert unreached == []


def _heard(address, *, encrypted):
    """Return what a scheduler says to a stranger, who takes any certificate and has none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    url = urlsplit(address)
    try:
        with socket.create_connection((url.hostname, url.port), timeout=10) as plain:
            spoken = context.wrap_socket(plain) if encrypted else plain
            spoken.sendall(bytes(64))
            return spoken.recv(100)
    except OSError:  # it ends the connection in several ways
        return b""


def test_workers_here_speak_tls_and_answer_nobody_without_their_certificate(scheduler, monkeypatch):
    once = lore("check", "logs", "--json")
    heard = []
    compare = Cluster._compare

    def compared(self, client, *args):
        address = client.scheduler.address
        heard.extend((address[:16], _heard(address, encrypted=True), _heard(address, encrypted=False)))
        return compare(self, client, *args)

    monkeypatch.setattr(Cluster, "_compare", compared)
    assert lore("check", "logs", "--json", "--cluster", "local", "--jobs", "2") == once
    assert heard == ["tls://127.0.0.1:", b"", b""]
    assert b"compression" in _heard(scheduler, encrypted=False), "an open one speaks to anybody"


def test_an_interrupt_ends_the_run_in_order(scheduler, small_tasks):
    asked = iter([False] * 3)
    result = check(
        ["logs"], Budgets(), Options(), cluster=Cluster(scheduler, print), interrupted=lambda: next(asked, True)
    ).result
    assert isinstance(result.interrupted, Interrupted)
    assert result.interrupted.files < result.interrupted.of


def test_a_scheduler_that_is_not_there_is_an_error(monkeypatch):
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.2)
    ran = lore("check", ".", "--cluster", "tcp://127.0.0.1:9")
    assert ran.code == 2
    assert ran.err.startswith("error: no scheduler answers at tcp://127.0.0.1:9")


def test_a_worker_that_is_another_lore_is_refused(scheduler, monkeypatch):
    other = program()._replace(version="9.9")
    monkeypatch.setattr(cluster, "program", lambda: other)
    ran = lore("check", "logs", "--cluster", scheduler)
    assert ran.code == 2
    assert f"runs lore {program().version}, and this is lore 9.9" in ran.err


def test_a_worker_in_another_folder_takes_absolute_paths_alone(scheduler, tmp_path, monkeypatch):
    logs = os.path.abspath("logs")
    monkeypatch.chdir(tmp_path)
    args = ("check", logs, "--json")
    assert lore(*args, "--cluster", scheduler) == lore(*args)
    os.symlink(logs, "logs")
    assert "where these names mean other files" in lore("check", "logs", "--cluster", scheduler).err


HERE = Worker(program(), "", "/here")


@pytest.mark.parametrize(
    ("worker", "said"),
    [
        (HERE._replace(program=program()._replace(digest="0")), "another build of lore"),
        (HERE._replace(program=program()._replace(plugins=("mine=a:b 1",))), "other plug-ins: .*mine=a:b 1"),
        (HERE._replace(program=program()._replace(optional=("x",))), "other packages: "),
        (HERE._replace(rules="0"), "another file of rules"),
        (HERE._replace(folder="/there"), "runs in /there"),
    ],
)
def test_what_differs_is_said(worker, said):
    with pytest.raises(LoreError, match=said):
        differ("tcp://10.0.0.1:1", worker, HERE, relative=True)
    differ("tcp://10.0.0.1:1", HERE._replace(folder="/there"), HERE, relative=False)


def test_a_task_refuses_to_run_on_another_lore():
    from lore.run.checking.verdicts import CheckConfig

    with pytest.raises(LoreError, match="joined later"):
        cluster.judge_task((), CheckConfig(Options(), Budgets()), program()._replace(digest="0"), "")


@pytest.mark.parametrize(
    ("address", "private"),
    [
        ("tcp://127.0.0.1:8786", True),
        ("tcp://[::1]:8786", True),
        ("tcp://localhost:8786", True),
        ("tls://10.0.0.5:8786", True),
        ("tcp://10.0.0.5:8786", False),
        ("tcp://127.0.0.1.example.org:8786", False),
    ],
)
def test_who_may_read_along(address, private):
    assert cluster._is_private(address) == private


@pytest.mark.parametrize("address", ["", "4", "host", "http://host:1", "tcp://", "tcp://host:x", "file:///tmp/x"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(LoreError, match="is no address of a scheduler"):
        Cluster(address, print)


def test_files_are_packed_by_size_and_number(monkeypatch):
    monkeypatch.setattr(cluster, "TASK_BYTES", 10)
    monkeypatch.setattr(cluster, "TASK_FILES", 3)
    sizes = [1, 1, 1, 1, 99, 4, 6, 1]
    files = [Input(str(size), named=False, size=size) for size in sizes]
    files[0] = files[0]._replace(stream=True)
    assert [task.places for task in packed(files)] == [(1, 2, 3), (4,), (5, 6), (7,)]


def test_jobs_and_an_address_contradict_each_other():
    ran = lore("check", ".", "--cluster", "tcp://127.0.0.1:9", "--jobs", "2")
    assert (ran.code, "leave --jobs out" in ran.err) == (2, True)


def test_without_dask_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    ran = lore("check", ".", "--cluster", "local")
    assert ran.code == 2
    assert "pip install 'lore-cache[dask]'" in ran.err
