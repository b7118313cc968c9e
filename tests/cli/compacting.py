"""What tests of `lore compact` share: a log in which a person asks and is answered, and the command."""

from cli.running import lore
from helpers.schemas import valid
from model.making import header, log, record, said, user

USAGE = {"uncached_tokens": 10, "read_tokens": 4_000, "write_tokens": 500, "write_5m_tokens": 500, "output_tokens": 50}
POLICY = b"continuous_interval = 2\nkeep_recent = 2\n"


def talk(exchanges=6, *, gap=30, timed=True, **fields):
    """A log in which a person asks and is answered, `gap` seconds apart."""
    lines = [header(**{"model": "claude-sonnet-4-5", "user_id": "ada", **fields})]
    for n in range(1, exchanges + 1):
        begin, end = ({"at": at(n * gap + more)} if timed else {} for more in (0, 5))
        lines += [
            record("append", item=user(f"u{n}", f"question {n} " + "x" * 400), **begin),
            record("turn_started", turn=n, **begin),
            record("append", item=said(f"a{n}", f"answer {n} " + "y" * 400), **end),
            record("turn_completed", turn=n, usage={**USAGE, "read_tokens": 4_000 + 250 * n}, **end),
        ]
    return log(*lines)


def at(seconds):
    return f"2026-09-01T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z"


def dry(name="s.jsonl", policy="p.toml", *more):
    result = lore("compact", name, "--policy", policy, "--dry-run", "--json", *more)
    assert result.code == 0, result.err
    valid(result.json, "compact")
    return result.json


def compact(name="s.jsonl", *more):
    return lore("compact", name, "--policy", "p.toml", *more)
