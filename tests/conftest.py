"""Shared by all tests: profiles of hypothesis, and real recordings.

Profiles: `ci` (the default) is derandomised and keeps no examples; `soak` is long and random. Choose one
with HYPOTHESIS_PROFILE or --hypothesis-profile. Real recordings are in LORE_CORPUS, else in ../shared/corpus
next to the project; a test that takes `recording` runs once for each, and is skipped without them.
"""

import gc
import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, configuration, settings

from chromium import browser  # noqa: F401 - a fixture

ROOT = Path(__file__).resolve().parent.parent
CORPUS = Path(os.environ.get("LORE_CORPUS") or ROOT.parent / "shared" / "corpus")
READABLE = ("claude-code/*.jsonl", "capture/openhands*.jsonl")  # the supported recordings
_NUMBERS = count(1)
ABSENT = "no real recordings: set LORE_CORPUS to their folder"

settings.register_profile(
    "ci",
    derandomize=True,
    max_examples=15,  # the same ones in every run: more of them say nothing new, `soak` does
    deadline=None,
    database=None,
    print_blob=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("soak", parent=settings.get_profile("ci"), derandomize=False, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_configure(config):
    """Keep hypothesis' data in `build`, and let started processes share compiled files."""
    if hasattr(config, "workerinput"):
        gc.disable()  # until the tests are collected: they stay
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    configuration.set_hypothesis_home_dir(ROOT / "build" / "hypothesis")  # made again it costs 3 s a process
    with suppress(ImportError):
        os.environ.setdefault("SSL_CERT_FILE", str(_one_authority()))
    # A script that starts pytest in the background has it ignore interrupts, and with it what tests interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # No test cuts the power: what this process writes need not wait for a disk (what a test starts still waits).
    config.add_cleanup(partial(setattr, os, "fsync", os.fsync))
    os.fsync = os.fstat


def _one_authority() -> Path:
    """Write a file with one certificate: no test asks a real server, and reading all costs each client 20 ms."""
    import certifi  # of the HTTP clients

    path = ROOT / "build" / "authority.pem"
    end = "-----END CERTIFICATE-----\n"
    first = Path(certifi.where()).read_text("utf-8").partition(end)[0] + end
    path.parent.mkdir(exist_ok=True)
    written = path.with_suffix(f".{os.getpid()}")  # workers begin at the same time
    written.write_text(first, "utf-8")
    written.replace(path)
    return path


def pytest_collection_finish():
    """Exclude the 20,000 collected tests from each later collection of garbage."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_generate_tests(metafunc):
    """Run a test that takes `recording` over every real recording with a reader; the larger two thirds are `soak`."""
    if metafunc.config.option.markexpr == "not soak":
        _drop_soak_cases(metafunc.definition)
    if "recording" in metafunc.fixturenames:
        metafunc.parametrize("recording", recordings(file for pattern in READABLE for file in CORPUS.glob(pattern)))


def _drop_soak_cases(test: pytest.Function) -> None:
    """Remove the cases that would be deselected: they are four in ten, and each is made by every worker."""
    for mark in test.iter_markers("parametrize"):
        cases = mark.args[1] if len(mark.args) > 1 else None
        kept = [case for case in cases or () if "soak" not in {one.name for one in getattr(case, "marks", ())}]
        if kept and isinstance(cases, list) and not isinstance(mark.kwargs.get("ids"), list):
            cases[:] = kept


def recordings(files: Iterable[Path]) -> list[Any]:
    """Return real recordings as cases, from the smallest; two thirds are `soak`. One that is skipped if none."""
    ordered = sorted(files, key=lambda file: (file.stat().st_size, file))
    marks = [
        [pytest.mark.corpus, *([pytest.mark.soak] if at >= len(ordered) / 3 else [])] for at in range(len(ordered))
    ]
    cases = [
        pytest.param(file, id=f"{file.parent.name}/{file.name}", marks=marked)
        for file, marked in zip(ordered, marks, strict=True)
    ]
    return cases or [pytest.param(None, id="absent", marks=[pytest.mark.corpus, pytest.mark.skip(reason=ABSENT)])]


@pytest.fixture
def tmp_path(tmp_path_factory) -> Path:
    """Return an empty folder; pytest's own lists the folders of all earlier tests to find a free name."""
    path = tmp_path_factory.getbasetemp() / f"test{next(_NUMBERS)}"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def corpus() -> Path:
    """Return the folder of real recordings; skip the test without them."""
    if not CORPUS.is_dir():
        pytest.skip(ABSENT)
    return CORPUS


@pytest.fixture
def desk(tmp_path, monkeypatch) -> Path:
    """Return an empty folder and work in it: no settings, no colour, no debugging from outside."""
    monkeypatch.chdir(tmp_path)
    for name in ("LORE_DEBUG", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def state(tmp_path, monkeypatch) -> None:
    """Keep locks and the key of boundary lines in the test's own folder."""
    monkeypatch.setenv("LORE_STATE", str(tmp_path / "state"))
