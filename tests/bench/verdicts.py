"""Accuracy of predictions and verdicts on real recordings, compared by the oracle with the raw file.

    python tests/bench/verdicts.py

Prints every row, and those of transcripts where each file is left out. Figures come as (measure, bar, measured, met),
the fields of a row. A prediction is made before its bill is read, and what a session shows counts for that session
alone; where something is learned over files (a base rate) each file is judged by the others. The bars are those of
unseen recordings: on few files a row says little, so each says how many it rests on. Without real recordings
(LORE_CORPUS) the rows say so.
"""

import functools
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.recordings import ABSENT, CORPUS, Fields
from cli.running import lore
from oracle.recordings import read
from oracle.verdicts import DROP, GRACE, PLACES, SHARE, Expected, can_lead, expected, wrong_losses

FOLDERS = ("claude-code", "capture", "vcr")


class Judged(NamedTuple):
    """A turn: the oracle's expectation, and lore's result."""

    file: str
    must: Expected
    row: dict[str, Any]

    @property
    def transition(self) -> bool:
        """Whether it continues a billed turn, so that its prediction can be compared with the naive rule."""
        left, bill = self.must.previous, self.must.request.bill
        if left is None or left.bill is None or bill is None or self.must.request.failed:
            return False
        return self.must.extends or self.row["lost_tokens"] is not None  # else it begins a chain of its own

    @property
    def read(self) -> int:
        """Tokens read, as billed."""
        return self.must.request.bill.read if self.must.request.bill else 0

    @property
    def stood(self) -> int:
        """What the turn before left, which is what the naive rule predicts."""
        return self.must.previous.bill.cached if self.must.previous and self.must.previous.bill else 0

    @property
    def predicted(self) -> int:
        """The predicted read; without a prediction the naive rule's, so that silence never pays."""
        said = self.row["predicted"]["read_tokens"]
        return self.stood if said is None else said

    @property
    def fell(self) -> bool:
        return self.read < self.stood - DROP

    @property
    def foreseen(self) -> bool:
        return self.predicted < self.stood - DROP

    @property
    def plain(self) -> bool:
        """Whether the file itself shows why the cache is gone: a pause longer than it lives, or a compaction."""
        pause, lives = self.must.pause, self.must.lifetime
        return self.must.request.compacted or (pause is not None and lives is not None and pause[1] > lives / GRACE)

    @property
    def lead(self) -> dict[str, Any] | None:
        """The cause that leads."""
        return next((cause for cause in self.row["causes"] if cause["is_break"]), None)


def judged(folder: str) -> tuple[Judged, ...]:
    """Ask lore of every file of a folder of the corpus; seconds, once a process."""
    return _judged(CORPUS / folder)


@functools.cache
def _judged(folder: Path) -> tuple[Judged, ...]:
    found: list[Judged] = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        rows = {row["line"]: row for row in lore("simulate", "--json", str(path)).json["turns"]}
        places = {(row["chain"], row["turn"]): row["line"] for row in rows.values()}
        before = {line: places.get((chain, turn - 1), 0) for (chain, turn), line in places.items()}
        for must in expected(read(path), before):
            row = next((rows[line] for line in must.request.lines if line in rows), None)
            if row is not None:
                found.append(Judged(path.name, must, row))
    return tuple(found)


def transitions(folder: str = "claude-code") -> list[Judged]:
    """Return the turns whose predictions can be compared with usage."""
    return [turn for turn in judged(folder) if turn.transition]


def every() -> list[Judged]:
    """Return all turns."""
    return [turn for folder in FOLDERS for turn in judged(folder)]


def share(part: int, whole: int) -> str:
    """Write a share with its counts."""
    return f"{part:,} of {whole:,}" + (f", {part / whole:.2%}" if whole else "")


def within(measure: str, least: float, turns: list[Judged]) -> Fields:
    """Count the reads predicted within 2 %, and those of the naive rule."""
    bar = f"{least:.1%} within 2 %"
    if not turns:
        return measure, bar, ABSENT if not every() else "n 0", None
    close = sum(abs(turn.predicted - turn.read) <= SHARE * turn.read for turn in turns)
    exact = sum(turn.predicted == turn.read for turn in turns)
    naive = sum(abs(turn.stood - turn.read) <= SHARE * turn.read for turn in turns)
    files, whole = len({turn.file for turn in turns}), len(turns)
    said = f"{share(close, whole)} (exact {exact / whole:.1%}; naive rule {naive / whole:.1%}); {files} files"
    return measure, bar, said, close / len(turns) >= least


def reads() -> Iterator[Fields]:
    """Predicted reads of transcripts and captures."""
    turns = transitions()
    asked = [turn for turn in turns if turn.must.request.prompted]
    yield within("reads of transcripts, all transitions", 0.984, turns)
    yield within("… within a turn of the user", 0.996, [turn for turn in turns if not turn.must.request.prompted])
    yield within("… at a new prompt of the user", 0.9, asked)
    yield within("… at a new prompt, without a drop", 0.954, [turn for turn in asked if not turn.fell])
    wire = [turn for name in FOLDERS[1:] for turn in transitions(name)]
    served = {"claude": "Anthropic", "gpt": "OpenAI"}
    for word, name in served.items():
        rows = [turn for turn in wire if word in turn.must.request.model]
        yield within(f"reads of captures, {name}", {"Anthropic": 0.928, "OpenAI": 0.88}[name], rows)


def extensions() -> list[Judged]:
    """Return the clean extensions in captures of Anthropic's cache: all of the prompt before, and all of it read."""
    turns = [turn for name in FOLDERS[1:] for turn in transitions(name)]
    return [turn for turn in turns if turn.must.extends and turn.must.read_all and "claude" in turn.must.request.model]


def clean() -> Fields:
    """Count clean extensions that are predicted to the token."""
    turns = extensions()
    measure, bar = "reads of captures, Anthropic, clean extensions that were read whole", "95 % exact"
    if not turns:
        return measure, bar, ABSENT if not every() else "n 0", None
    exact = sum(turn.predicted == turn.read for turn in turns)
    return measure, bar, share(exact, len(turns)), exact / len(turns) >= 0.95


def error() -> Fields:
    """Compare the mean error with that of the rule that needs no model."""
    turns = transitions()
    measure, bar = "mean error of predicted reads against the naive rule's, transcripts", "at most 0.6"
    off, naive = (sum(abs(said(turn) - turn.read) for turn in turns) for said in (_predicted, _stood))
    if not naive:
        return measure, bar, ABSENT if not turns else "n 0", None
    said = f"{off / naive:.2f}: {off / len(turns):,.0f} against {naive / len(turns):,.0f} tokens; n {len(turns):,}"
    return measure, bar, said, off / naive <= 0.6


def _predicted(turn: Judged) -> int:
    return turn.predicted


def _stood(turn: Judged) -> int:
    return turn.stood


def above() -> Fields:
    """Count predicted reads that no request could read: they are above all that it asked."""
    turns = [turn for name in FOLDERS for turn in transitions(name)]
    measure, bar = "predicted reads above the whole billed prompt", "0"
    if not turns:
        return measure, bar, ABSENT, None
    wrong = sum(turn.predicted > turn.must.request.bill.prompt_tokens for turn in turns if turn.must.request.bill)
    return measure, bar, share(wrong, len(turns)), wrong == 0


def drops() -> Iterator[Fields]:
    """Return the rows for predicted drops and false alarms."""
    rest = [turn for turn in transitions() if not turn.plain]
    fell = [turn for turn in rest if turn.fell]
    seen, false = sum(turn.foreseen for turn in fell), sum(turn.foreseen and not turn.fell for turn in rest)
    alarms, none = seen + false, ABSENT if not every() else "n 0"
    yield (
        "predicted drops over 1,000 tokens, other than expiry and compaction", "40 %",
        share(seen, len(fell)) if fell else none, seen / len(fell) >= 0.4 if fell else None,
    )  # fmt: skip
    yield (
        "false alarms among those forecasts", "at most 5 %", share(false, alarms) if alarms else none,
        false / alarms <= 0.05 if alarms else None,
    )  # fmt: skip


def losses() -> Fields:
    """Compare stated losses with bills, by code."""
    by_code: dict[str, list[bool]] = defaultdict(list)
    for turn in every():
        low, high, lead = turn.must.at_least, turn.must.at_most, turn.lead
        if low is not None and high is not None and lead is not None and turn.row["lost_tokens"] is not None:
            by_code[lead["code"]].append(not any(wrong_losses(turn.must, turn.row, [])))
    measure = "stated losses within 2 % of read + write before minus read now, at most the unread prompt sent before"
    right, whole = sum(map(sum, by_code.values())), sum(map(len, by_code.values()))
    if not whole:
        return measure, "99 %", ABSENT, None
    codes = ", ".join(f"{code} {sum(found)} of {len(found)}" for code, found in sorted(by_code.items()))
    return measure, "99 %", f"{share(right, whole)} ({codes})", right / whole >= 0.99


def sections() -> Fields:
    """Cut the provider's verdicts out, and see whether the section is found without them."""
    measure, bar = "section of a miss, with the provider's verdict cut out", "77.8 % (56 of 72)"
    told = {(turn.file, turn.must.request.lines[0]): PLACES[turn.must.request.verdict]
            for turn in judged("claude-code") if turn.must.request.verdict in PLACES}  # fmt: skip
    if not told:
        return measure, bar, ABSENT if not every() else "n 0", None
    with tempfile.TemporaryDirectory(prefix="lore-blind-") as name:
        for file in {file for file, _ in told}:
            lines = (CORPUS / "claude-code" / file).read_bytes().split(b"\n")
            (Path(name) / file).write_bytes(b"\n".join(map(blind, lines)))
        found = {(turn.file, turn.must.request.lines[0]): turn for turn in _judged(Path(name))}
    right = sum((lead := found[place].lead) is not None and can_lead(lead, section) for place, section in told.items())
    return measure, bar, share(right, len(told)), right / len(told) >= 56 / 72


def blind(line: bytes) -> bytes:
    """Remove the provider's verdict from a line of a session."""
    if b'"diagnostics"' not in line:
        return line
    value = json.loads(line)
    if isinstance(value.get("message"), dict):
        value["message"].pop("diagnostics", None)
    return json.dumps(value).encode()


def contradicted() -> Fields:
    """Count the verdicts of the provider that the leading cause contradicts.

    This includes recorded requests whose bytes certainly contradict the verdict, which LORE302 reports.
    """
    told = [turn for turn in every() if turn.must.request.verdict in PLACES]
    measure, bar = "verdicts of the provider that the leading cause contradicts", "0"
    if not told:
        return measure, bar, ABSENT if not every() else "n 0", None
    wrong = sum(
        (lead := turn.lead) is not None and lead["section"] in PLACES.values()
        and not can_lead(lead, PLACES[turn.must.request.verdict])
        for turn in told
    )  # fmt: skip
    return measure, bar, share(wrong, len(told)), wrong == 0


def missed() -> Fields:
    """Count the breaks in pairs that are called fine."""
    fine = [turn for turn in every() if turn.transition and turn.lead is None and turn.must.at_least is not None]
    measure, bar = "breaks missed in pairs called fine", "0"
    if not fine:
        return measure, bar, ABSENT, None
    wrong = sum((turn.must.at_least or 0) > DROP for turn in fine)
    return measure, bar, share(wrong, len(fine)), wrong == 0


ROWS: dict[str, Callable[[], Iterable[Fields]]] = {
    "reads": lambda: [*reads(), clean(), error(), above()],
    "drops": drops,
    "truth": lambda: [losses(), sections(), contradicted(), missed()],
}


def main() -> None:
    """Print the tables."""
    for rows in ROWS.values():
        for row in rows():
            print(*row, sep=" | ")
    turns = transitions()
    asked = [turn for turn in turns if turn.must.request.prompted]
    for file in sorted({turn.file for turn in turns}):
        rest = [turn for turn in turns if turn.file != file]
        rows = within("", 0.984, rest), within("", 0.9, [turn for turn in asked if turn.file != file])
        print(f"without {file}", *(row[2] for row in rows), sep=" | ")


if __name__ == "__main__":
    main()
