"""Write a folder in which recordings depend on each other: forks of one session, waste, damage, no recordings."""

from cli.running import put, session
from formats.claude import answered, asked, counts, text
from model.making import body, record


def family(name, *numbers):
    """A session of Claude Code that begins with the history of its family."""
    shared = [
        asked("u1", "begin"),
        answered("a1", "msg_1", text("one"), "u1", usage=counts(10, 0, 20_000, 5)),
        asked("u2", "go on", "a1"),
        answered("a2", "msg_2", text("two"), "u2", usage=counts(10, 0, 20_000, 5)),
    ]
    new = [
        line
        for number in numbers
        for line in (
            asked(f"u{number}", "and", "a2"),
            answered(f"a{number}", f"msg_{number}", text(number), f"u{number}", usage=counts(10, 20_000, 50, 5)),
        )
    ]
    return [{**line, "sessionId": name} for line in (*shared, *new)]


def put_logs():
    """Write `logs` below the current folder."""
    put("logs/a/parent.jsonl", *family("one", "3"))
    put("logs/a/fork.jsonl", *family("two", "4", "5"))
    put("logs/a/middle.jsonl", *family("two", "4", "5")[2:])
    put("logs/b/fork.jsonl", *family("three", "6"))
    for number in range(6):
        put(f"logs/c/{number}.jsonl", session(session_id=f"s{number}"))
        put(f"logs/d/{number}.jsonl", body("a", system=f"2026-01-0{number + 1}"), body("a", system="2026-02-01"))
    put("logs/e.jsonl", session(record("odd")) + b"{nope}\n")
    put("logs/f.txt", b"no recording")
    put("logs/g é.json", b"\x00\x01")
    put("logs/half.jsonl", b'{"messages":[{"role":"user","content":"a"}],"model":"\\ud83d"}\n' * 2)
