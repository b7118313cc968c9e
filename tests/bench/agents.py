"""Accuracy of predicted reads on logs of agents other than Claude Code, compared with a naive rule.

The naive rule: a request reads the whole input of the previous request of its chain. A prediction is made before its
usage is read. Two more shares are printed: requests that read as much as the previous request read, and requests that
fit either, which no rule that picks one of the two can exceed. The bars are those of unseen recordings. DeepSeek's two
runs here differ from them, and miss the bar: `cache/data/deepseek.toml` has the counts, and why its rule is kept.

Figures are (measure, bar, measured, met), the fields of a row, each with its number of requests; without real
recordings (LORE_CORPUS) the rows say so.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from bench.recordings import ABSENT, CORPUS, Fields
from cli.running import lore

SHARE = 0.02
NEAR = 0.10  # of the median of what first requests hold and their logs do not


class Read(NamedTuple):
    """A request's read: as billed, as predicted, and what the request before it was asked with and had read."""

    billed: int
    predicted: int
    before: int
    again: int

    def near(self, *tokens: int) -> bool:
        """Whether any of these is within the share."""
        return any(abs(count - self.billed) <= SHARE * self.billed for count in tokens)


ROWS: tuple[tuple[str, str, float | None, Callable[[dict[str, Any]], bool]], ...] = (
    ("Codex CLI", "codex/*.jsonl", 0.86, lambda turn: True),
    ("pi, Anthropic's cache", "pi/*.jsonl", 0.96, lambda turn: turn["cache"] == "anthropic"),
    ("pi, other caches", "pi/*.jsonl", None, lambda turn: turn["cache"] != "anthropic"),
    ("OpenCode", "opencode/*.json", 0.67, lambda turn: True),
    ("mini-swe-agent (DeepSeek)", "mini-swe-agent/*.json", 0.95, lambda turn: True),
    ("Copilot CLI", "copilot/*.jsonl", None, lambda turn: True),
    ("Gemini CLI (implicit cache)", "gemini/*.json", None, lambda turn: True),
    ("Roo Code", "cline-roo/*ui_messages.json", None, lambda turn: True),
)


def reads() -> Iterator[Fields]:
    """Predicted reads within 2 %, agent by agent, and those of the rule."""
    for agent, pattern, least, among in ROWS:
        measure = f"reads of {agent} within 2 %, against 'the previous input'"
        bar = "more than the rule" if least is None else f"{least:.0%}, and more than the rule"
        found = [read for path in sorted(CORPUS.glob(pattern)) for read in _reads(str(path), among)]
        if not found:
            yield measure, bar, ABSENT if not CORPUS.is_dir() else "n 0", None
            continue
        close, rule = (sum(read.near(tokens) for read, tokens in pairs) for pairs in (
            [(read, read.predicted) for read in found], [(read, read.before) for read in found]
        ))  # fmt: skip
        again, either = (
            sum(read.near(read.again) for read in found),
            sum(read.near(read.before, read.again) for read in found),
        )
        others = f"'the previous read' {again / len(found):.1%}, either {either / len(found):.1%}"
        said = f"{close / len(found):.1%} against {rule / len(found):.1%}; {others}; n {len(found):,}"
        yield measure, bar, said, close > rule and close >= (least or 0) * len(found)


def _reads(path: str, among: Callable[[dict[str, Any]], bool]) -> Iterator[Read]:
    """Yield the requests after a billed one; without a prediction the naive rule counts."""
    before: dict[str, tuple[int, int]] = {}
    for turn in lore("simulate", "--json", path).json["turns"]:
        bill = turn["billed"]
        if bill is None or bill["read_tokens"] is None:
            continue
        last, read = before.get(turn["chain"]), turn["predicted"]["read_tokens"]
        whole = sum(bill[name] or 0 for name in ("read_tokens", "write_tokens", "uncached_tokens"))
        before[turn["chain"]] = whole, bill["read_tokens"]
        if last is not None and among(turn):
            yield Read(bill["read_tokens"], last[0] if read is None else read, *last)


def unseen() -> Iterator[Fields]:
    """Yield how similar the unlogged parts of Codex' first requests are: its own tools, and those of servers.

    Logs do not name connected tools; they have only the client's instructions about plugins and apps. The version
    alone predicts less.
    """
    sizes = {path: _unseen(str(path)) for path in sorted(CORPUS.glob("codex/*.jsonl"))}
    by_tools, by_version = defaultdict(list), defaultdict(list)
    for path, size in sizes.items():
        version, connected = _shown(path.read_bytes())
        by_version[version].append(size)
        by_tools[connected].append(size)
    for name, groups, bar in (("connected tools", by_tools, "all"), ("version", by_version, "not judged")):
        several = [sorted(group) for group in groups.values() if len(group) > 1]
        medians = [(group, group[(len(group) - 1) // 2]) for group in several]
        near = sum(abs(size - median) <= NEAR * median for group, median in medians for size in group)
        count = sum(map(len, several))
        said = f"{near} of {count} in {len(several)} groups; {len(sizes) - count} sessions like no other"
        met = near == count if bar == "all" and count else None
        measure = f"unexplained size of Codex' first requests within 10 % of the median of the same {name}"
        yield measure, bar, said if sizes else ABSENT, met


def _unseen(path: str) -> int:
    return lore("check", "--json", path).json["unseen"][0]["tokens"]


def _shown(data: bytes) -> tuple[str, str]:
    """Return the version of a log, and its texts about connected tools before the first response."""
    version, connected = "", []
    for line in filter(None, data.split(b"\n")):
        payload = json.loads(line)["payload"]
        version = version or payload.get("cli_version", "")
        if payload.get("type") == "token_count" and payload["info"]:
            break
        texts = [part.get("text", "") for part in payload.get("content") or () if payload.get("role") == "developer"]
        connected += [text for text in texts if text.startswith(("<apps_instructions>", "<plugins_instructions>"))]
    return version, "".join(connected)
