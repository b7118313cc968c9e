"""Start and stop llama.cpp's server on the loopback interface, by default with the tiny model of `make oracle-llama`.

The program is `llama-server` of `build/oracle/llama`, LORE_LLAMA_SERVER or PATH; without one `start` skips the test.
The server ends with the process that started it.
"""

import atexit
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

BUILT = Path(__file__).parents[4] / "build" / "oracle" / "llama"
PATIENCE = 120.0  # seconds
_RUNNING: dict[str, subprocess.Popen[bytes]] = {}


def binary() -> str | None:
    """Return the server's program, None if it is not installed."""
    path = os.environ.get("LORE_LLAMA_SERVER") or str(BUILT / "llama-server")
    return path if Path(path).is_file() else shutil.which("llama-server")


def start(model: Path | None = None, *options: str) -> str:
    """Start a server, wait until it answers, and return its URL; skip if there is no program or model."""
    program, model = binary(), model if model is not None else BUILT / "tiny.gguf"
    if program is None or not model.is_file():
        pytest.skip("no llama-server, or no model for it: make oracle-llama builds both")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        program,
        "-m",
        str(model),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "-t",
        "1",
        "--no-warmup",
        *options,
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + PATIENCE
    _RUNNING[url] = process
    atexit.register(stop, url)
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url + "/health", timeout=5):
                return url
        except OSError:
            time.sleep(0.05)
    stop(url)
    raise RuntimeError(f"{' '.join(command)} does not answer")


def stop(url: str) -> None:
    """Stop a server that `start` started."""
    process = _RUNNING.pop(url, None)
    if process is not None:
        process.kill()
        process.wait()
