"""Write sessions as Claude Code does, and captures of request bodies."""

from datetime import datetime, timedelta

from cli.running import put
from formats.claude import answered, asked, counts, text

MODEL = "claude-opus-4-5"
HOSTILE = (
    "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>\"'><svg onload=window.hacked=1>"
    '<a href="javascript:window.hacked=1">x</a>{{7*7}}{% raw %}\x1b[31m\u202etxt.exe\u2066 ]]>'
    "<!--&lt;style>*{display:none}"
)


def session(path, bills, *, words="", minutes=None, project="/code/app", model=MODEL, agent=None):
    """Write a session. `bills`: uncached, read, written and output tokens of each request; `minutes`: their times."""
    name, made = path.rpartition("/")[2].removesuffix(".jsonl"), []
    for number, bill in enumerate(bills):
        minute = number if minutes is None else minutes[number]
        at = f"{datetime(2026, 1, 1) + timedelta(minutes=minute):%Y-%m-%dT%H:%M}:00.000Z"  # noqa: DTZ001
        before = f"{name}a{number - 1}" if number else None
        made += [
            asked(f"{name}u{number}", f"question {number}{words}", before, timestamp=at),
            answered(f"{name}a{number}", f"msg_{name}_{number}", text(f"yes{words}"), f"{name}u{number}",
                     usage=counts(*bill), timestamp=at),
        ]  # fmt: skip
    for line in made:
        line |= {"sessionId": name, "cwd": project, **({"agentId": agent} if agent else {})}
        if "message" in line and "model" in line["message"]:
            line["message"]["model"] = model
    put(path, *made)
    return path


def growing(turns, *, falls=()):
    """Return bills of a prompt that grows by 1,000 tokens a turn; in `falls` nothing is read."""
    bills = []
    for turn in range(turns):
        stood = 10_000 + 1_000 * turn
        bills.append((10, 0, stood + 1_000, 100) if turn in falls or not turn else (10, stood, 1_000, 100))
    return bills


def bodies(path, *prompts, usage=(100, 0, 0, 10)):
    """Write captures of requests with these system prompts; each continues the messages of the previous one."""
    lines, messages = [], []
    for number, prompt in enumerate(prompts):
        messages = [*messages, {"role": "user", "content": f"question {number}"}]
        uncached, read, written, output = usage
        lines.append({
            "timestamp": f"2026-01-01T00:{number:02}:00Z",
            "request": {"method": "POST", "url": "https://api.anthropic.com/v1/messages", "body": {
                "model": MODEL, "max_tokens": 100, "system": [{"type": "text", "text": prompt}], "messages": messages}},
            "response": {"status_code": 200, "body": {
                "id": f"msg_{number}", "type": "message", "role": "assistant", "model": MODEL,
                "content": [{"type": "text", "text": "yes"}],
                "usage": {"input_tokens": uncached, "cache_read_input_tokens": read,
                          "cache_creation_input_tokens": written, "output_tokens": output}}},
        })  # fmt: skip
        messages = [*messages, {"role": "assistant", "content": [{"type": "text", "text": "yes"}]}]
    put(path, *lines)
    return path
