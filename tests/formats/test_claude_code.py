"""Claude Code's logs: recognition, any cut of a log, forks, titles; `cases` has single behaviours."""

from formats.claude import answered, asked, counts, folded, line, log_bytes, read, result, text, use
from helpers.each import each
from lore.formats.claude.reader import ClaudeCode
from lore.model.codes import Code
from lore.run.checking.check import check
from lore.testing import ReaderContract

PLAIN = [
    asked("u1", "list the files"),
    answered("a1", "r1", {"type": "thinking", "thinking": "", "signature": "sig"}, "u1", usage=counts(3, 100, 50, 1)),
    answered("a2", "r1", use("c1"), "a1", usage=counts(3, 100, 50, 1)),
    asked("u2", [result("c1", "a.py")], "a2"),
    answered("a3", "r1", use("c2"), "a2", usage=counts(3, 100, 50, 77)),
    asked("u3", [result("c2", [text("b.py")], is_error=True)], "a3"),
    answered("a4", "r2", text("two files"), "u3", usage=counts(1, 150, 20, 9)),
]
COMPACTED = [
    *PLAIN,
    line("system", "b1", None, subtype="compact_boundary", logicalParentUuid="a4", content="Conversation compacted",
         compactMetadata={"trigger": "auto", "preTokens": 900}),
    asked("u4", "This session is being continued", "b1", isCompactSummary=True, isVisibleInTranscriptOnly=True),
    asked("u5", "go on", "u4"),
    answered("a5", "r3", text("ok"), "u5", usage=counts(1, 0, 60, 2)),
]  # fmt: skip


class TestContract(ReaderContract):
    reader = ClaudeCode
    samples = (
        log_bytes(*PLAIN), log_bytes(*COMPACTED)[:-1], b"\xef\xbb\xbf" + log_bytes(*PLAIN).replace(b"\n", b"\r\n"),
    )  # fmt: skip


# forks and titles


def forked(*lines):
    copies = [
        {**line, "sessionId": "f", "forkedFrom": {"sessionId": "s", "messageUuid": line["uuid"]}} for line in lines
    ]
    new_lines = [asked("u8", "another way", "a4"), answered("a8", "r8", text("sure"), "u8", usage=counts(1, 170, 9, 5))]
    return [*copies, *({**line, "sessionId": "f"} for line in new_lines)]


def test_fork_without_its_parent_counts_no_inherited_request(tmp_path):
    (tmp_path / "fork.jsonl").write_bytes(log_bytes(*forked(*PLAIN)))
    summary = check([str(tmp_path)]).result.summary
    assert (summary.turns, summary.copied) == (1, 2)
    (tmp_path / "parent.jsonl").write_bytes(log_bytes(*PLAIN))  # is read after its fork
    summary = check([str(tmp_path)]).result.summary
    assert (summary.turns, summary.copied) == (3, 2)
    assert read(*forked(*PLAIN))[0].parent_session_id == "s"


def title(kind, name, **fields):
    member = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}[kind]
    return {"type": kind, member: name, "sessionId": "s", **fields}


@each("lines, expected", [
    ((*PLAIN, title("ai-title", "List files"), title("ai-title", "Read files")), "Read files"),
    ((*PLAIN, title("custom-title", "mine"), title("ai-title", "Read files")), "mine"),
    ((title("ai-title", "List files"), *PLAIN), "List files"),
    ((title("summary", "List files", leafUuid="a4"), title("summary", "x", leafUuid="x9"), *PLAIN), "List files"),
    ((title("summary", "of another session", leafUuid="x9"), *PLAIN), None),
    ((*PLAIN, title("ai-title", "List files"), title("summary", "Old", leafUuid="a4")), "List files"),
])  # fmt: skip
def test_title_is_the_users_or_the_models(lines, expected):
    assert folded(*lines).state.title == expected


@each("head, is_known", [
    (log_bytes(line("file-history-snapshot", None, messageId="m", snapshot={})), True),
    (log_bytes({"type": "summary", "summary": "s", "leafUuid": "u"}), True),
    (log_bytes({"type": "summary", "summary": 5, "leafUuid": ["u"]}), True),  # of a version with other types
    (log_bytes({"type": "user", "message": {}}), False),
    (log_bytes({"type": "assistant", "message": {"usage": {"cache_read_input_tokens": 0}}}), True),
    (log_bytes({"type": "message", "message": {"usage": {"cache_read_input_tokens": 0}}}), False),
    (log_bytes({"type": "novelty", "sessionId": "s"}), False),
    (b"not json\n" + log_bytes(*PLAIN[:1]), True),
    (b"", False),
    (b"{", False),
])  # fmt: skip
def test_log_is_recognised_by_its_records(head, is_known):
    assert ClaudeCode.recognises(head) is is_known


def test_record_of_too_many_values_is_reported():
    (problem,) = ClaudeCode().read([b'{"type":"user","x":[' + b"{}," * 400_000 + b"{}]}\n"])
    assert (problem.value.code, problem.line) == (Code.CAPTURE_TOO_LARGE, 1)
