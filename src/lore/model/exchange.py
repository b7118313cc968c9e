"""A recorded turn: the request body as it was stored, what is known of its call, what was billed, when."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from lore.model.events import Billed, Verdict

Form: TypeAlias = Literal["nothing", "json", "text", "base64", "events", "elsewhere"]  # how a content is kept
Fidelity: TypeAlias = Literal["wire", "parsed", "structural", "reconstructed", "rendered"]


class Call(Struct, frozen=True, gc=False):
    """What is known of a request besides its body; empty or None where the recording does not say.

    `endpoint` is host and path without a query; `session` and `agent` name the conversation, `purpose` says
    in the client's own word what the request is for; `previous` names the response that the request
    continues; `betas` are the beta features asked for by header (None: no headers were recorded);
    `account` is a digest of the key it was sent with, never the key; `status` the response's HTTP status.
    """

    endpoint: str = ""
    session: str = ""
    agent: str = ""
    purpose: str = ""
    previous: str = ""
    betas: tuple[str, ...] | None = None
    account: str = ""
    status: int | None = None


class Streamed(Struct, frozen=True, gc=False):
    """An answer that came in pieces, as the recording keeps it; `lore.formats.said` puts it together when asked.

    `raw` is JSON: a string where `form` is text or base64, an array of events or of what is one; `encoding` is
    what the response's headers say of its bytes.
    """

    raw: bytes
    form: Form = "text"
    encoding: str = ""


Output: TypeAlias = bytes | Streamed


class Exchange(Struct, frozen=True):
    """One request with what is known of its response.

    `at` is when it was asked and `answered` when its response began, both in seconds since the epoch;
    `output` is what the model said, as a JSON array of the dialect's own items or messages (empty: unknown),
    or the stream in which it said it.
    """

    body: bytes
    fidelity: Fidelity
    at: float | None = None
    usage: Billed | None = None
    verdict: Verdict | None = None
    answered: float | None = None
    response_id: str = ""
    output: Output = b""
    call: Call = Call()
