"""Shared by the tests of hostile input: small recordings, and how a command may end.

0 fine, 1 findings, 2 not to be read or recognised, 3 incomplete. 70 is a bug in lore, whatever the input was.
"""

from typing import NamedTuple

from lore.commands.main import main

HEADER = b'{"kind":"session_started","session_id":"s","model":"claude-x"}\n'
USER = b'{"kind":"append","item":{"type":"user_message","uuid":"u%d","text":"hi"}}\n'
GOOD = HEADER + USER % 1 + b'{"kind":"turn_started","turn":1}\n'
TWO = GOOD + USER % 2 + b'{"kind":"turn_started","turn":2}\n'
BODY = b'{"model":"claude-x","max_tokens":5,"system":"s","messages":[{"role":"user","content":"hi"}]}'
JUDGING = (("fold", "--json"), ("assemble",), ("check", "--json"))


class Ended(NamedTuple):
    """The exit code and output of a command."""

    code: int
    out: str
    err: str


def run(capsys, *words: str) -> Ended:
    """Run lore in this process; whatever happens it must not look like a crash."""
    code = main([str(word) for word in words])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    assert code != 70, err
    return Ended(code, out, err)


def assert_refused(ended: Ended) -> None:
    """Exit 2, no answer on standard output, one line with the error, perhaps a place, a hint, turns that there are."""
    lines = ended.err.splitlines()
    assert ended.code == 2, ended
    assert not ended.out or ended.out.startswith('{"schema":2,"error":"')
    assert lines[0].startswith("error: ")
    assert all(line.startswith(("  --> ", "hint: ", "  #")) for line in lines[1:])
