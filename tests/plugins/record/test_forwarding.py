"""Servers reached through a proxy, and certificates of the user's environment."""

import contextlib
import shutil
import socket
import ssl
import subprocess
import threading

import httpx
import pytest

from lore.errors import LoreError
from plugins.record.conftest import recording

NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
         "REQUESTS_CA_BUNDLE", "AWS_CA_BUNDLE")  # fmt: skip


@pytest.fixture
def environment(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return monkeypatch


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Return a certificate for api.example.test by its own authority."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("needs openssl")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [program, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=api.example.test",
         "-addext", "subjectAltName=DNS:api.example.test", "-keyout", "key.pem", "-out", "cert.pem"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    return folder / "cert.pem", folder / "key.pem"


class Tunnel:
    """A proxy that supports CONNECT and answers requests in the tunnel itself, as the named server."""

    def __init__(self, certificate):
        self.asked = []
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(*certificate)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with contextlib.suppress(OSError), connection:
                    self._serve(connection)

    def _serve(self, connection):
        self.asked.append(self._head(connection))
        if not self.asked[-1].startswith("CONNECT "):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nplain")
            return
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        with self._context.wrap_socket(connection, server_side=True) as inner:
            self.asked.append(self._head(inner))
            inner.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nsafe")

    def _head(self, connection):
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                break
            data += piece
        return data.decode()

    def close(self):
        self._listener.close()


@pytest.fixture
def tunnel(certificate):
    made = Tunnel(certificate)
    yield made
    made.close()


def ask(recorded):
    return httpx.get(f"{recorded.address}/anthropic/v1/models?limit=1", trust_env=False, timeout=60)


@pytest.mark.parametrize("trusting", ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"])
def test_server_is_reached_by_proxy_and_own_certificates(trusting, environment, tunnel, certificate, tmp_path):
    environment.setenv("HTTPS_PROXY", tunnel.address)
    environment.setenv(trusting, str(certificate[0]))
    with recording(tmp_path / "c.jsonl", "https://api.example.test:8443") as recorded:
        assert ask(recorded).text == "safe"
        assert recorded.answer()[1] == b"safe"
    connect, inner = tunnel.asked
    assert connect.startswith("CONNECT api.example.test:8443 HTTP/1.1\r\n")
    assert inner.startswith("GET /v1/models?limit=1 HTTP/1.1\r\n")
    assert "\r\nhost: api.example.test:8443\r\n" in inner.lower()


def test_untrusted_certificate_is_refused(environment, tunnel, tmp_path):
    environment.setenv("HTTPS_PROXY", tunnel.address)
    with recording(tmp_path / "c.jsonl", "https://api.example.test") as recorded:
        answer = ask(recorded)
    assert answer.status_code == 502
    assert "certificate verify failed" in answer.json()["message"].lower()


def test_no_proxy_names_servers_to_ask_directly(environment, tunnel, tmp_path):
    environment.setenv("HTTP_PROXY", tunnel.address)
    with recording(tmp_path / "c.jsonl", "http://models.example.test") as recorded:
        assert ask(recorded).text == "plain"
    assert tunnel.asked[0].startswith("GET http://models.example.test/v1/models?limit=1 HTTP/1.1\r\n")
    environment.setenv("NO_PROXY", "models.example.test")
    with recording(tmp_path / "d.jsonl", "http://models.example.test") as recorded:
        assert ask(recorded).status_code == 502  # no such host, and the proxy was not asked
    assert len(tunnel.asked) == 1


def test_server_on_this_machine_is_asked_directly(environment, upstream, tunnel, tmp_path):
    environment.setenv("HTTP_PROXY", tunnel.address)
    with recording(tmp_path / "c.jsonl", upstream) as recorded:
        answer = httpx.post(f"{recorded.address}/anthropic/x/echo", content=b"here", trust_env=False)
    assert (answer.content, tunnel.asked) == (b"here", [])


@pytest.mark.parametrize(("name", "value", "words"), [
    ("HTTPS_PROXY", "nonsense://x", "not the URL of a proxy"),
    ("ALL_PROXY", "socks5://127.0.0.1:1", "socksio"),
    ("SSL_CERT_FILE", "/no/such/file.pem", "the certificates of SSL_CERT_FILE cannot be read: no such file"),
    ("NODE_EXTRA_CA_CERTS", __file__, "the certificates of NODE_EXTRA_CA_CERTS cannot be read: it contains none"),
])  # fmt: skip
def test_wrong_proxy_or_certificate_fails_before_the_command(name, value, words, environment, tmp_path):
    if "socksio" in words:
        environment.setitem(__import__("sys").modules, "socksio", None)
    environment.setenv(name, value)
    with pytest.raises(LoreError, match=words), recording(tmp_path / "c.jsonl", "https://h.example"):
        pass
    assert list(tmp_path.iterdir()) == []
