"""Tokens from bytes, calibrated on what earlier turns of the session were billed.

In: the bytes of what was appended, and later by how many tokens the prompt grew. Rules: only earlier turns are
learned from; what the model said is taken from its billed output where that can be (early versions of Claude
Code recorded counts of a response that had just begun); a rate stays between 1 and 16 bytes a token.
"""

from __future__ import annotations

from lore.cache.growth import IMAGE_TOKENS, Growth

BYTES_PER_TOKEN = 4.0
_LEAST, _MOST = 1.0, 16.0
_WEIGHT = 2_000.0  # tokens' worth of the rate that holds before anything was learned
_SCARCE = 16.0  # bytes a token: an output count below that share of what is visible is a count of its beginning


class Rate:
    """Bytes a token of what came in, and of what the model said."""

    __slots__ = ("_bytes", "_tokens")

    def __init__(self) -> None:
        self._bytes, self._tokens = BYTES_PER_TOKEN * _WEIGHT, _WEIGHT

    @property
    def bytes_per_token(self) -> float:
        """The rate as it was learned so far."""
        return min(_MOST, max(_LEAST, self._bytes / self._tokens))

    def said(self, grown: Growth, output: int | None) -> int:
        """Return the tokens of the answer before the turn, as they stand in the prompt."""
        if output is not None and output * _SCARCE >= grown.spoken:
            return output
        return round(grown.spoken / self.bytes_per_token)

    def tokens(self, grown: Growth, output: int | None) -> int:
        """Estimate by how many tokens a prompt grew."""
        return self.said(grown, output) + round(grown.given / self.bytes_per_token) + grown.images * IMAGE_TOKENS

    def learn(self, grown: Growth, output: int | None, tokens: int) -> None:
        """Take by how many tokens it grew; what bytes cannot explain teaches nothing."""
        given = tokens - self.said(grown, output) - grown.images * IMAGE_TOKENS
        if given > 0 and _LEAST / 2 <= grown.given / given <= _MOST * 2:
            self._bytes += grown.given
            self._tokens += given
