"""Fixtures: commands run in an empty folder, with an object server of these tests or of moto."""

import pytest

from lore.recording.filesystem import _remote_files
from plugins.scale.s3_server import CREDENTIALS, ObjectServer


@pytest.fixture(autouse=True)
def empty_folder(desk, monkeypatch):
    monkeypatch.setenv("HOME", str(desk / "home"))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    _remote_files.cache_clear()
    return desk


@pytest.fixture
def bucket(monkeypatch):
    """A server with an empty bucket `b`, which the environment names; the client repeats a failed request."""
    pytest.importorskip("s3fs")
    with ObjectServer() as server:
        settings = {**CREDENTIALS, "AWS_ENDPOINT_URL": server.endpoint, "AWS_REGION": "us-east-1",
                    "AWS_MAX_ATTEMPTS": "3", "AWS_RETRY_MODE": "standard"}  # fmt: skip
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        server.objects["b"] = {}
        yield server


@pytest.fixture(scope="session")
def moto_server():
    """The S3 server of moto."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def moto(moto_server, monkeypatch):
    """A client of that server, which the environment names; lists have pages of three."""
    pytest.importorskip("s3fs")
    boto3 = pytest.importorskip("boto3")
    settings = {"AWS_ENDPOINT_URL": moto_server, "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1",
                "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "s",
                "MOTO_S3_DEFAULT_MAX_KEYS": "3"}  # fmt: skip
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return boto3.client("s3")
