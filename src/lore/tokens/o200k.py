"""The o200k_base tokenizer, from the vocabulary in this folder.

Counts the tokens of a segment's bytes, and the tokens that two texts have in common at their start.
The vocabulary is verified before use. Each distinct text is tokenised once, in chunks cut at places where the
encoding always cuts, so that a common prefix tokenises only the first different chunk again. The text is
counted as it is in the request (JSON escapes included); a provider decodes it first and counts a little less.

Source: the split pattern and the vocabulary's digest are those that tiktoken publishes for o200k_base.
Loading costs about 250 ms and 60 MB: it happens at the first count.
"""

from __future__ import annotations

import hashlib
import re
from binascii import a2b_base64
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from lore.errors import LoreError

if TYPE_CHECKING:
    import tiktoken

NAME = "o200k_base"
SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
CHUNK = 4096  # characters, up to the next place where a text may be cut
LONGEST = 16_384  # characters of a chunk: tiktoken's matcher overflows its stack on a million spaces

_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_PATTERN = "|".join(
    (
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_ENDING}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_ENDING}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
# Between a letter or digit and one space that a letter follows, the pattern always cuts before the space.
_CUT = re.compile(r"(?<=[A-Za-z0-9])(?= [A-Za-z])")


@cache
def load_encoding() -> tiktoken.Encoding:
    """Load the encoding; raises LoreError if the vocabulary is not the published one."""
    import tiktoken

    data = resources.files("lore.tokens").joinpath(f"{NAME}.tiktoken").read_bytes()
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise LoreError("the vocabulary in lore's package is damaged", hint="install lore again")
    words = data.split()  # token, rank, token, rank, …
    ranks = dict(zip(map(a2b_base64, words[::2]), map(int, words[1::2]), strict=True))
    return tiktoken.Encoding(NAME, pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens={})


def cut_chunks(text: str) -> list[str]:
    """Cut a text at places where its tokens never meet; a cut depends only on the text around it."""
    cuts, start = [0], 0
    while len(text) - start > CHUNK:
        match = _CUT.search(text, start + CHUNK, start + LONGEST + 2)
        start = match.start() if match is not None else min(start + LONGEST, len(text))
        cuts.append(start)
    cuts.append(len(text))
    return [text[a:b] for a, b in zip(cuts, cuts[1:], strict=False) if a < b]


class Counter:
    """Count tokens of byte strings; each distinct one once."""

    name = NAME

    def __init__(self) -> None:
        self._counts: dict[bytes, tuple[int, ...]] = {}
        self.tokenised = 0  # chunks given to the encoder, for tests that count work

    def count(self, data: bytes) -> int:
        """Return the number of tokens."""
        return sum(self._chunk_counts(data))

    def _chunk_counts(self, data: bytes) -> tuple[int, ...]:
        counts = self._counts.get(data)
        if counts is None:
            counts = self._counts[data] = tuple(len(self._encode(chunk)) for chunk in cut_chunks(_text(data)))
        return counts

    def _encode(self, chunk: str) -> list[int]:
        self.tokenised += 1
        return load_encoding().encode_ordinary(chunk)

    def count_common(self, first: bytes, second: bytes) -> int:
        """Return the number of leading tokens that two texts share.

        Equal chunks at the start are counted already; only the first different chunk is compared token by token.
        """
        shared = 0
        pairs = zip(self._chunk_counts(first), cut_chunks(_text(first)), cut_chunks(_text(second)), strict=False)
        for count, left_chunk, right_chunk in pairs:
            if left_chunk == right_chunk:
                shared += count
                continue
            for token, peer in zip(self._encode(left_chunk), self._encode(right_chunk), strict=False):
                if token != peer:
                    break
                shared += 1
            break
        return shared


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
