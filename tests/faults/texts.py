"""Volatile text in the forms in which agents write it: the text before and after the change."""

from faults.script import WORDS, token

HEX = "0123456789abcdef"
ALNUM = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

DATES = {
    "iso day": ("Today's date: 2026-11-21", "Today's date: 2026-11-22"),
    "iso instant": ("The current time is 2026-11-21T06:54:40Z.", "The current time is 2026-11-21T06:57:12Z."),
    "iso with offset": ("now=2026-11-21T06:54:40.120+02:00", "now=2026-11-21T06:55:02.944+02:00"),
    "iso with a space": ("Started 2026-11-21 06:54:40.123456", "Started 2026-11-21 07:01:09.001200"),
    "iso basic": ("stamp 20261121T185440Z", "stamp 20261122T001207Z"),
    "long english": ("Current date: Saturday, November 21, 2026", "Current date: Sunday, November 22, 2026"),
    "ordinal english": ("It is the 21st of November 2026.", "It is the 22nd of November 2026."),
    "short english": ("as of Nov 21, 2026 at 6:54pm", "as of Nov 21, 2026 at 6:58pm"),
    "javascript": (
        "Sat Nov 21 2026 18:54:40 GMT+0100 (Central European Standard Time)",
        "Sat Nov 21 2026 18:59:02 GMT+0100 (Central European Standard Time)",
    ),
    "rfc 2822": ("Date: Sat, 21 Nov 2026 18:54:40 +0000", "Date: Sun, 22 Nov 2026 09:02:00 +0000"),
    "american": ("Date (local): 11/21/2026", "Date (local): 11/22/2026"),
    "american with time": ("11/21/2026, 6:54:40 PM", "11/21/2026, 7:03:11 PM"),
    "german": ("Heute ist der 21.11.2026.", "Heute ist der 22.11.2026."),
    "slashes from the year": ("Day: 2026/11/21", "Day: 2026/11/22"),
    "day month year": ("21-Nov-2026", "22-Nov-2026"),
    "twelve hours": ("Local time: 6:54 PM", "Local time: 6:57 PM"),
    "twenty-four hours": ("Local time: 18:54:40", "Local time: 18:57:03"),
    "epoch seconds": ("timestamp: 1795330480", "timestamp: 1795330792"),
    "epoch milliseconds": ("ts=1795330480123", "ts=1795330792871"),
    "weekday": ("Today is Friday.", "Today is Saturday."),
    "japanese": ("今日は2026年11月21日です。", "今日は2026年11月22日です。"),
    "month": ("The month is November 2026.", "The month is December 2026."),
}


def ids(chance) -> dict[str, tuple[str, str]]:
    """Return the forms of ids, with fresh ones in them."""

    def uuid() -> str:
        return "-".join(token(chance, size, HEX) for size in (8, 4, 4, 4, 12))

    def mixed(size: int) -> str:
        return "".join(token(chance, 1, "0123456789") + token(chance, 1, ALNUM) for _ in range(size // 2))

    def two(make) -> tuple[str, str]:
        return make(), make()

    return {
        "uuid": two(lambda: f"Session ID: {uuid()}"),
        "uuid in capitals": two(lambda: f"trace {uuid().upper()}"),
        "uuid in a path": two(lambda: f"Scratchpad: /var/agent/{uuid()}/pad"),
        "request": two(lambda: f"request_id: req_{mixed(24)}"),
        "process": (f"pid {chance.randint(2000, 4999)}", f"pid {chance.randint(5000, 9999)}"),
        "process in words": (f"Process ID: {chance.randint(2000, 4999)}", f"Process ID: {chance.randint(5000, 9999)}"),
        "temporary folder": two(lambda: f"Scratch folder: /tmp/agent-{token(chance, 6)}/work"),
        "temporary folder of a mac": two(
            lambda: f"Scratch folder: /var/folders/x1/{token(chance, 12)}/T/tmp{token(chance, 8)}"
        ),
        "trace parent": two(lambda: f"traceparent: 00-{token(chance, 32, HEX)}-{token(chance, 16, HEX)}-01"),
        "ulid": two(lambda: f"run 01{mixed(24).upper()}"),
        "hex": two(lambda: f"nonce={token(chance, 32, HEX)}"),
        "completion": two(lambda: f"Last response: chatcmpl-{mixed(28)}"),
    }


def counts(chance) -> dict[str, tuple[str, str]]:
    """Return the forms of reminders of a token budget."""
    more, less = chance.randint(150_000, 190_000), chance.randint(20_000, 90_000)
    return {
        "tag": (f"<total_tokens>{more} tokens left</total_tokens>", f"<total_tokens>{less} tokens left</total_tokens>"),
        "tag of the budget": (
            f"<budget:token_budget>200000</budget:token_budget> {more} tokens remaining",
            f"<budget:token_budget>200000</budget:token_budget> {less} tokens remaining",
        ),
        "warning": (
            f"<system_warning>Token usage: {200_000 - more}/200000; {more} remaining</system_warning>",
            f"<system_warning>Token usage: {200_000 - less}/200000; {less} remaining</system_warning>",
        ),
        "words": (f"You have {more:,} tokens left.", f"You have {less:,} tokens left."),
        "context": (f"Context window: {more} tokens remaining", f"Context window: {less} tokens remaining"),
    }


def trees(chance) -> dict[str, tuple[str, str]]:
    """Return the forms of an agent's notes on its repository and its folder."""
    one, two, three, four = chance.sample(WORDS, 4)
    head = (
        "gitStatus: This is the git status at the start of the conversation.\nCurrent branch: main\n\n"
        "Main branch (you will usually use this for PRs): main\n\n"
    )
    sha = [token(chance, 7, HEX[10:]) for _ in range(3)]
    return {
        "claude code": (
            f"{head}Status:\nM src/{one}.py\n\nRecent commits:\n{sha[0]} Add {two}\n{sha[1]} Fix {three}",
            f"{head}Status:\nM src/{one}.py\n?? src/{four}.py\n\nRecent commits:\n{sha[2]} Add {four}\n{sha[0]} Go on",
        ),
        "status": (
            "<git_status>\nOn branch main\nnothing to commit, working tree clean\n</git_status>",
            f"<git_status>\nOn branch main\nChanges not staged for commit:\n\tmodified:   src/{one}.py\n</git_status>",
        ),
        "short status": (
            f"# git status --short --branch\n## main...origin/main\n M {one}.py",
            f"# git status --short --branch\n## main...origin/main [ahead 1]\n M {two}.py\n?? {three}/",
        ),
        "branch": (
            f"Git repository: yes\nCurrent branch: {one}\nGit status: clean",
            f"Git repository: yes\nCurrent branch: {two}-{three}\nGit status: clean",
        ),
        "tree": (
            f"Folder structure:\n.\n├── src\n│   ├── {one}.py\n│   └── {two}.py\n└── README.md",
            f"Folder structure:\n.\n├── src\n│   ├── {one}.py\n│   ├── {three}.py\n│   └── {two}.py\n└── README.md",
        ),
        "listing": (
            f"<directory_structure>\n- src/\n  - {one}.py\n  - {two}.py\n</directory_structure>",
            f"<directory_structure>\n- src/\n  - {one}.py\n  - {two}.py\n  - {four}.py\n</directory_structure>",
        ),
    }


def memories(chance) -> dict[str, tuple[str, str]]:
    """Return the forms of recalled or retrieved text that is put before the history."""
    from faults.script import prose  # noqa: PLC0415 - prose needs a chance

    facts = [prose(chance, 1) for _ in range(4)]
    return {
        "tag": (f"<memory>\n- {facts[0]}\n- {facts[1]}\n</memory>", f"<memory>\n- {facts[0]}\n- {facts[2]}\n</memory>"),
        "memories": (f"<memories>\n{facts[0]}\n</memories>", f"<memories>\n{facts[1]}\n{facts[2]}\n</memories>"),
        "heading": (
            f"## Relevant memories\n\n1. {facts[0]}\n2. {facts[1]}",
            f"## Relevant memories\n\n1. {facts[3]}\n2. {facts[0]}",
        ),
        "retrieved": (
            f"<retrieved_context>\n{facts[0]}\n</retrieved_context>",
            f"<retrieved_context>\n{facts[2]}\n</retrieved_context>",
        ),
        "documents": (
            f"<relevant_documents>\n<document>{facts[0]}</document>\n</relevant_documents>",
            f"<relevant_documents>\n<document>{facts[1]}</document>\n<document>{facts[2]}</document>\n</relevant_documents>",
        ),
        "bank": (f"# Memory Bank\n\n- {facts[0]}", f"# Memory Bank\n\n- {facts[0]}\n- {facts[3]}"),
    }
