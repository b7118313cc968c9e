"""Sign a request of AWS anew (SigV4): a client signs it for the address of the recorder, AWS checks it for its own.

In: a request as it came, with its signature. Out: its headers with a signature for another host. Rules: what is signed
anew is what the client signed, with the body to the byte; with the credentials that botocore finds as any AWS client
does (environment, profile, SSO, role), in this process. They are used for one account: where the client's key and
lore's differ and one of them is a long-lived key, nothing is signed. Nothing of credentials is written or said.

Sources: AWS Signature Version 4 (docs.aws.amazon.com/IAM, "Create a signed AWS API request"); unique id prefixes (AKIA:
long-lived access key) in the IAM User Guide; botocore 1.44, auth.py; read on 2026-11-23.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import import_module
from threading import Lock
from typing import Any, NamedTuple

from lore.record.kept import Pairs

_SIGNED = re.compile(
    r"AWS4-HMAC-SHA256 +Credential=([\w-]{1,128})/\d{8}/([a-z0-9-]{1,32})/([a-z0-9-]{1,64})/aws4_request *, *"
    r"SignedHeaders=([!-+\--~]{1,4096}) *, *Signature=[0-9a-f]{64}"
)
_LONG_LIVED = "AKIA"
_OF_SIGNATURE = frozenset((b"authorization", b"x-amz-date", b"x-amz-security-token", b"host", b"date"))
LARGEST = 128 * 1024 * 1024  # bytes of a body that is signed: it is held until it is whole
HINT = "pip install 'lore-cache[bedrock]'"


class NotSignedError(Exception):
    """A request cannot be signed anew; the text says why, and what to do."""


class Signature(NamedTuple):
    """What a signature says: the name of its key, where and for which service it holds, and which headers it covers."""

    key: str
    region: str
    service: str
    headers: frozenset[bytes]


def signature_of(headers: Pairs) -> Signature | None:
    """Return the signature of a request; None where it has none. Raises NotSignedError for one of another kind."""
    values = [value.decode("latin-1") for name, value in headers if name.lower() == b"authorization"]
    if not any(value.startswith("AWS4-") for value in values):
        return None
    found = _SIGNED.fullmatch(values[0].strip()) if len(values) == 1 else None
    if found is None:
        raise NotSignedError("a signature of AWS is none that lore can make anew (AWS4-HMAC-SHA256 in one header)")
    if any(name.lower() == b"x-amz-content-sha256" and value.startswith(b"STREAMING-") for name, value in headers):
        raise NotSignedError("a body that is signed chunk by chunk cannot be signed anew")
    return Signature(found[1], found[2], found[3], frozenset(found[4].lower().encode().split(b";")))


class Signer:
    """Signs with the credentials of this process's environment. Safe to share between threads; may wait for a network:
    botocore fetches what a role or SSO gives.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._credentials: Any = None

    def sign(
        self, signature: Signature, method: str, url: str, headers: Iterable[tuple[bytes, bytes]], body: bytes
    ) -> list[tuple[bytes, bytes]]:
        """Return the headers with a signature for the host of `url`. Raises NotSignedError."""
        try:
            auth: Any = import_module("botocore.auth")
            requests: Any = import_module("botocore.awsrequest")
        except ModuleNotFoundError:
            raise NotSignedError(
                f"the request is signed for this address, and to sign it for AWS lore needs botocore: {HINT}"
            ) from None
        credentials = self._frozen()
        if signature.key != credentials.access_key and _LONG_LIVED in (signature.key[:4], credentials.access_key[:4]):
            raise NotSignedError(
                "the request is signed with other credentials than those that lore finds in its environment, and is "
                "not sent for another account: set AWS_PROFILE or AWS_ACCESS_KEY_ID for lore record itself"
            )
        headers = list(headers)
        signed = [(name, value) for name, value in headers if name.lower() in signature.headers - _OF_SIGNATURE]
        request = requests.AWSRequest(method=method, url=url, data=body)
        for name, value in signed:
            request.headers.add_header(name.decode("latin-1"), value.decode("latin-1"))
        auth.SigV4Auth(credentials, signature.service, signature.region).add_auth(request)
        kept = [pair for pair in headers if pair[0].lower() not in _OF_SIGNATURE]
        made = ((name.lower().encode("latin-1"), value) for name, value in request.headers.items())
        return kept + [(name, value.encode("latin-1")) for name, value in made if name in _OF_SIGNATURE - {b"host"}]

    def _frozen(self) -> Any:
        """Return credentials as they are now. Raises NotSignedError."""
        session: Any = import_module("botocore.session")
        errors: Any = import_module("botocore.exceptions")
        try:
            with self._lock:
                if self._credentials is None:
                    self._credentials = session.Session().get_credentials()
            found = None if self._credentials is None else self._credentials.get_frozen_credentials()
        except (errors.BotoCoreError, errors.ClientError) as error:
            raise NotSignedError(
                f"botocore finds no credentials to sign the request for AWS ({type(error).__name__}): "
                "aws sts get-caller-identity says what is wrong with them"
            ) from None
        if found is None or not found.access_key or not found.secret_key:
            raise NotSignedError(
                "the request is signed for this address, and lore finds no credentials to sign it for AWS: set "
                "AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, for lore record itself"
            )
        return found
