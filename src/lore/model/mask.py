"""Mask text that looks like a credential: in reports, messages and logs, never in assembled prompts.

Rules: the masked text has the length of the original, so offsets hold; the first four characters stay,
so that a person can tell which credential it was; inside JSON text no escape is ever cut, so masked JSON
is JSON.

Patterns: the published prefixes of the providers named beside them.
"""

from __future__ import annotations

import re

from lore.model.patterns import pattern

_PATTERN = pattern(
    r"""
    (?:(?<![A-Za-z0-9])                                    # at a word's begin, also behind an escape
       | (?<=\\[nrtbf]) | (?<=\\u[0-9A-Fa-f]{4}) | (?<=\\x[0-9A-Fa-f]{2})
       | (?<=\[m) | (?<=\[[0-9]m) | (?<=[0-9;][0-9]m))(?:  # and behind a terminal's colour
      sk-[A-Za-z0-9_-]{16,}                                  # OpenAI, Anthropic, OpenRouter and others
    | (?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,} | github_pat_[A-Za-z0-9_]{20,} | glpat-[A-Za-z0-9_-]{16,}
    | (?:AKIA|ASIA)[A-Z0-9]{16}                              # AWS
    | AIza[A-Za-z0-9_-]{30,} | ya29\.[A-Za-z0-9_-]{20,}      # Google
    | xox[abeprs]-[A-Za-z0-9-]{10,}                          # Slack
    | (?:hf|npm)_[A-Za-z0-9]{30,} | pypi-[A-Za-z0-9_-]{30,} | (?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}
    | eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*)?   # JSON web tokens
)
    | (?<=[Bb]earer\ )[A-Za-z0-9._~+/-]{20,}
    | (?<=://)[^\s/:@"\\]+:[^\s/@"\\]{3,}(?=@)               # user:password@host
    | -----BEGIN[A-Z ]*PRIVATE\ KEY-----(?:[^"\\]|\\[^"])*?(?:-----END[A-Z ]*PRIVATE\ KEY-----|(?=\\?")|\Z)
    """,
    re.VERBOSE,
)


# What every credential holds, and how far behind its beginning. Looking for these is six times as fast as
# trying the pattern everywhere, and results may be as long as a session.
_SIGNS = (
    *((sign, 0) for sign in ("sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "AKIA", "ASIA")),
    *((sign, 0) for sign in ("AIza", "ya29.", "xox", "hf_", "npm_", "pypi-", "eyJ", "-----BEGIN")),
    ("_live_", 2), ("_test_", 2), ("earer ", -6), ("://", -3),
)  # fmt: skip


def mask(text: str) -> str:
    """Replace what looks like a credential by stars, but for its first four characters."""
    starts: set[int] = set()
    for sign, behind in _SIGNS:
        at = text.find(sign)
        while at >= 0:
            starts.add(max(0, at - behind))
            at = text.find(sign, at + 1)
    pieces: list[str] = []
    end = 0
    for start in sorted(starts):
        found = _PATTERN.match(text, start) if start >= end else None
        if found is not None:
            shown = min(start + 4, found.end())
            pieces += (text[end:shown], "*" * (found.end() - shown))
            end = found.end()
    return "".join([*pieces, text[end:]]) if pieces else text
