"""A watch that is asked to end while it waits for somebody else: at once, and with nothing half done."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.storing import opened
from run.test_compacting_watch import begun, exchange

POLICY = """[compaction]
continuous_interval = {interval}
keep_recent = 2
summarizer = "command"
command = ["./ask"]
timeout_secs = 600
"""
SCRIPT = """#!/bin/sh
echo asked > asked
exec sleep 600
"""


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_sigterm_ends_a_wait_for_a_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = opened("sqlite", tmp_path)
    kept = begun(store)
    for number in range(1, 5):
        exchange(kept, number)
    before = [one.head for one in store.list()]
    stop_while_asking(store.url, POLICY.format(interval=1))
    assert [one.head for one in store.list()] == before
    store.close()


def stop_while_asking(url, settings):
    """Watch a store, and end the watch while its summariser is asked."""
    Path("lore.toml").write_text(settings)
    Path("ask").write_text(SCRIPT)
    Path("ask").chmod(0o755)
    os.mkfifo("asked")
    fifo = os.open("asked", os.O_RDWR)  # so that the other end does not wait
    run = [sys.executable, "-m", "lore", "compact", url, "--watch", "--interval", "60", "--config", "lore.toml"]
    environ = {**os.environ, "LORE_STATE": os.path.abspath("state")}
    with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ) as watch:
        try:
            assert select.select([fifo], [], [], 60)[0], watch.poll()
            watch.send_signal(signal.SIGTERM)
            said, told = watch.communicate(timeout=60)
        finally:
            watch.kill()
            os.close(fifo)
    assert (watch.returncode, said) == (0, b"")
    assert b"Traceback" not in told
