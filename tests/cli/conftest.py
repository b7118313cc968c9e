"""Every command runs in an empty folder, without settings or colours from outside."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lore.recording import remote
from lore.recording.agents.logs import AGENTS


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    agents = {
        path[1:].partition("/")[0] for agent in AGENTS for logs in agent.logs for path in logs.paths if path[0] == "$"
    }
    for name in (
        *agents,
        "XDG_DATA_HOME",
        "XDG_CONFIG_HOME",
        "NO_COLOR",
        "FORCE_COLOR",
        "LORE_DEBUG",
        "COLUMNS",
        "CLAUDE_CONFIG_DIR",
        "GITHUB_STEP_SUMMARY",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def bucket(objects, monkeypatch):
    """A service, named by the environment; requests that fail are sent again at once."""
    backoff = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=2), "base": 2}
    retries = {"max_retries": 2, "retry_timeout": timedelta(seconds=20), "backoff": backoff}
    monkeypatch.setattr("lore.recording.remote.objects.RETRIES", retries)
    monkeypatch.setattr(remote, "PAUSE", 0.001)
    monkeypatch.setenv("AWS_ENDPOINT_URL", objects.endpoint)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    remote._source.cache_clear()
    objects.keep("b/here", b"")
    del objects.objects["b"]["here"]
    return objects


@pytest.fixture(scope="session")
def moto_server():
    """The server of moto: S3 as another project plays it."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def moto(moto_server, monkeypatch):
    """A client of that server, which the environment names; a list comes in pages of three."""
    boto3 = pytest.importorskip("boto3")
    settings = {"AWS_ENDPOINT_URL": moto_server, "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1",
                "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "s",
                "MOTO_S3_DEFAULT_MAX_KEYS": "3"}  # fmt: skip
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    remote._source.cache_clear()
    return boto3.client("s3")
