"""Check recordings: what `lore check` answers.

Findings come in the order in which the files were named, and of their lines, whatever judges the files; those about the
whole run (budgets, exemptions, the baseline) come last.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, suppress
from functools import cache, partial
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from lore.errors import LoreError
from lore.files import current_folder
from lore.judge import baseline
from lore.judge.baseline import Baseline, BaselineEntry, BaselineRecorder, KnownFindings
from lore.judge.findings import finding
from lore.judge.policy import BudgetEntries, PerPath
from lore.judge.totals import FileResult, RunTotals
from lore.model.cause import Place
from lore.model.codes import Code, Problem
from lore.model.deferred import pattern
from lore.model.evidence import OverBudget, Unneeded
from lore.model.fact import count_of
from lore.model.ledger import Ledger
from lore.model.patterns import PathPattern
from lore.model.results import CheckResult, Finding, Interruption
from lore.recording import corpus, filesystem
from lore.recording.base import load_plugins
from lore.recording.inputs import Input, by_start, drop_copies, inputs, join_bodies
from lore.recording.opening import Options, reader_named
from lore.run.checking.verdicts import CheckContext, InterruptedRunError, judge_file, key_of, map_files, place_of
from lore.run.outputs import open_output, refuse_recording
from lore.store.registry import ignore


class CheckRun(Struct, frozen=True):
    """Which files a run opens, who judges them, and its callbacks."""

    accepts: Callable[[Input], bool] | None = None  # returns whether to open a file; None: open all
    looked: tuple[str, ...] = ()  # where recordings were looked for, if none were named
    pass_over: bool = False  # count named files that are not recordings, like those in folders
    # How many files are judged at a time, or workers elsewhere that judge them (`lore check --jobs ADDRESS`): an object
    # whose `results(files, ClusterJob)` yields the result of each file, in order; streams, which can be read only once,
    # are judged in this process. A plug-in publishes what makes it under `lore.clusters`: `(address, warn)`, with what
    # takes a line for the user.
    workers: Any = 1
    progress: Callable[[int, int], None] | None = None  # called with bytes judged and bytes in all
    interrupted: Callable[[], bool] | None = None  # called after each turn; True ends the run
    on_ledger: Callable[[Input, Ledger | None], object] | None = None  # called with each file and its ledger

    def is_interrupted(self) -> bool:
        """Return whether the user interrupted the run."""
        return self.interrupted is not None and self.interrupted()

    def report(self, total_bytes: int, earlier_bytes: int, judged_bytes: int) -> None:
        """Report the bytes of earlier files and of this one; raises InterruptedRunError."""
        if self.is_interrupted():
            raise InterruptedRunError
        if self.progress is not None:
            self.progress(earlier_bytes + judged_bytes, total_bytes)


DEFAULTS, EVERY_FILE = CheckContext(), CheckRun()


class CheckOutcome(Struct, frozen=True):
    """The result of a check, and what a command says about it."""

    result: CheckResult
    failed: bool  # a finding is an error
    unjudged: list[Problem] = []  # why requests, or whole files, could not be judged
    recordings: list[str] = []  # paths of the recordings that were judged, up to a limit
    baselined: int | None = None  # findings of this run in the baseline that was written
    unseen: int = 0  # findings that it keeps, and that this run did not look for
    fixed: list[str] = []  # entries of the baseline that no finding matches any more, in words
    counted: int | None = None  # requests whose usage has the tokens that were read from a cache; None: not counted
    longest: tuple[int, str] = (0, "")  # most turns with a prompt of over `LONG_PROMPT` tokens, and their recording
    notes: list[str] = []  # settings that hold for no file; that no file is new

    @property
    def incomplete(self) -> bool:
        """Whether something could not be judged."""
        return bool(self.unjudged)


def check(paths: list[str], context: CheckContext = DEFAULTS, run: CheckRun = EVERY_FILE) -> CheckOutcome:
    """Judge every recording under these paths.

    Raises LoreError for an input that cannot be judged, if the user named it and nothing else; one of several inputs is
    among the unjudged. An interrupted run reports budgets that the judged files exceed, but no unused exemption and no
    stale entry of the baseline, and writes no baseline.
    """
    context = replace(context, with_ledgers=run.on_ledger is not None)
    hidden_folders = list[str]()
    files, copies = _list_files(paths, context, run, hidden_folders)
    previous = _read_baseline(context)
    recorder = BaselineRecorder(context.option_ruling) if context.renews_baseline else None
    known_findings = None if previous is None else KnownFindings(previous, partial(_is_gone, context))
    totals, judged = RunTotals(known_findings, recorder), 0
    ordered = by_start(enumerate(files), lambda entry: entry[1])
    if context.policy.exempt:
        ordered.sort(key=lambda entry: context.is_exempted(key_of(entry[1].path, context.root)), reverse=True)
    with closing(_judge_files([file for _, file in ordered], run, context)) as results:
        for (place, file), result in zip(ordered, results, strict=False):  # an interrupted run has fewer results
            judged += 1
            for line in result.log:
                context.options.log(line)
            if result.error is not None:
                raise result.error
            totals.take(result, place)
            if run.on_ledger is not None:
                run.on_ledger(file, result.ledger)
    stopped = Interruption(judged, len(files)) if run.is_interrupted() else UNSET
    notes = [*copies, *_notes(totals, context, run, paths, hidden_folders)] if stopped is UNSET else []
    result = conclude(totals, context, None if context.renews_baseline else known_findings, is_all=stopped is UNSET)
    fixed = [finding.message for finding in result.findings if finding.code == Code.BASELINE_STALE]
    entries, unseen_count = None, 0
    if recorder is not None and previous is not None and stopped is UNSET:
        entries, unseen_count = baseline.renew_entries(
            previous, recorder.entries(), partial(_could_match, totals, context)
        )
        fixed = [f"{entry.code} {entry.path}" for entry in baseline.find_removed(previous, entries)]
        with open_output(context.baseline, force=True) as file:
            file.write(baseline.encode(entries))
    return CheckOutcome(
        replace(result, interrupted=stopped), totals.failed, totals.unjudged, totals.paths, notes=notes,
        baselined=None if entries is None else result.summary.known, unseen=unseen_count,
        fixed=fixed, longest=totals.longest, counted=totals.counted,
    )  # fmt: skip


def _notes(
    totals: RunTotals, context: CheckContext, run: CheckRun, paths: list[str], hidden_folders: list[str]
) -> Iterator[str]:  # fmt: skip
    """Yield what a person should know of a run that judged all files; raises LoreError if it found no recording."""
    sums, with_logs = totals.summary, list[str]()
    if hidden_folders:
        from lore.recording.agents.logs import is_place_of_logs  # noqa: PLC0415 - slow to import, and rare

        with_logs = list(filter(is_place_of_logs, hidden_folders))
    count, names = count_of(len(with_logs), "hidden folder"), ", ".join(map(corpus.show, with_logs))
    hint = f"{count} with logs skipped: {names}; name them to judge them"
    if with_logs:
        yield hint
    may_match, judged_keys = _unjudged_matcher(totals, context.root), (*totals.complete_keys, *totals.partial_keys)
    for number, entry in enumerate(context.policy.per_path):
        if not any(map(PathPattern(entry.path).matches, judged_keys)) and not may_match(entry.path):
            yield f"{context.settings or 'lore.toml'}: check.per_path[{number}]: no file matches {entry.path!r}"
    if sums.turns and not sums.pairs and not totals.unjudged:
        reason = "no conversation has two answered requests"
        if any(problem.code == Code.CONTENT_NOT_RECORDED for problem in totals.checked().problems):
            reason = "the content of requests is not recorded; switch it on in the recorder (lore explain LORE228)"
        elif sums.turns == sums.chains:
            reason = "each conversation has one request"
        yield f"nothing was compared: {reason}"
    if sums.files and not sums.turns and not sums.copied and not totals.unjudged:
        yield f"nothing was judged: no answered request in {count_of(sums.files, 'recording')}"
    if not sums.files and not totals.unjudged:
        from lore.run.arguments import no_recordings  # noqa: PLC0415 - slow to import, and rare

        folder = next((path for path in paths if path != corpus.STDIN and not os.path.isfile(path)), None)
        if run.accepts is not None:  # a job that runs each night has nothing new on some days
            yield no_recordings(folder or paths[0], run.looked, by_time=True).message
        elif folder is not None:  # named files that are not recordings are counted
            error = no_recordings(folder, run.looked, by_time=False)
            raise LoreError(error.message, hint=hint) if with_logs else error


def _list_files(
    paths: list[str], context: CheckContext, run: CheckRun, hidden_folders: list[str]
) -> tuple[list[Input], list[str]]:  # fmt: skip
    """Return the files to judge, and a note how many are copies; add the folders that are not searched to the list.

    Raises LoreError for an unknown name in the settings or options.
    """
    load_plugins()
    context.check_names()
    if context.options.format is not None:
        reader_named(context.options.format)
    files = [replace(file, optional=run.pass_over) for file in inputs(paths, run.accepts, hidden_folders.append)]
    for folder in hidden_folders:
        context.options.log(f"{corpus.show(folder)}: a hidden folder, skipped")
    policy = context.policy
    if context.with_ledgers or context.baseline or policy.per_path or policy.exempt:  # these are about single files
        return files, []
    return keep_originals(files, context.options)


def keep_originals(files: list[Input], options: Options) -> tuple[list[Input], list[str]]:
    """Return the files without copies of others, request bodies joined, and a note how many are copies."""
    kept = drop_copies(files, options)
    note = f"{count_of(len(files) - len(kept), 'file')} that another one equals or begins with: counted once"
    return join_bodies(kept, options.format), [note] * (len(kept) < len(files))


def conclude(
    totals: RunTotals, context: CheckContext, known_findings: KnownFindings | None = None, *, is_all: bool = True
) -> CheckResult:
    """Return the result of all files; `known_findings` are those of the baseline, `is_all`: all files were judged."""
    lines = _lines_of_settings(context.settings)
    findings = [*_find_over_budget(totals, context, lines)]
    if is_all:
        findings += unused_exemptions(totals, context, lines)
        if known_findings is not None:
            could_match = partial(_could_match, totals, context)
            findings += baseline.find_stale(known_findings, place_of(context.baseline, context.root), could_match)
    totals.conclude(findings, context.policy.ruling(""), context.complete)
    return totals.checked()


def _read_baseline(context: CheckContext) -> Baseline | None:
    """Return the baseline, if there is one; raises LoreError if it cannot be read or is damaged.

    A baseline to be replaced may be missing or empty, but not damaged: its entries about files that this run does not
    judge would be lost.
    """
    path, label = context.baseline, corpus.show(context.baseline)
    if not path:
        return None
    if context.renews_baseline:
        if not os.path.lexists(path) or (os.path.isfile(path) and os.path.getsize(path) == 0):
            return Baseline()
        refuse_recording(path)
    if not os.path.lexists(path):
        raise LoreError(f"there is no baseline {label}", hint="write it with --update-baseline", own=True)
    if os.path.isdir(path):
        raise LoreError(f"{label} is a folder, and a baseline is a file", hint=f"--baseline {label}/lore-baseline.json")
    return baseline.decode(b"".join(corpus.pieces(path)), label)


def _could_match(totals: RunTotals, context: CheckContext, entry: BaselineEntry) -> bool:
    """Return whether this run could have matched an entry: its file was judged from end to end, or no longer exists.

    So a run over the files of one commit, over `--last`, or with `--select`, removes nothing from a baseline.
    """
    if not context.option_ruling.looks_for(entry.code) or entry.path in totals.partial_keys:
        return False
    if entry.path in totals.complete_keys:
        return True
    return _is_gone(context, entry)


def _is_gone(context: CheckContext, entry: BaselineEntry) -> bool:
    """Return whether the file of a baseline's entry no longer exists."""
    is_elsewhere = filesystem.is_remote(entry.path) or corpus.is_stored(entry.path)
    return not is_elsewhere and not os.path.lexists(_path_of(entry.path, context.root))


def _path_of(key: str, root: str) -> str:
    """Return the path that a key stands for."""
    return key if filesystem.is_remote(key) else os.path.join(root, *key.split("/"))


class ClusterJob(Struct, frozen=True):
    """What a cluster needs to judge files. `judge_in_worker` and `maker` can be pickled."""

    judge_locally: Callable[[Input], FileResult]  # judges a file in this process
    judge_in_worker: Callable[[Input], FileResult]  # judges a file in any process
    maker: Callable[[], str]  # returns a digest of program and settings, which has to be equal in all workers
    tell: Callable[[int], None]  # takes how many bytes are judged; raises InterruptedRunError


def _judge_files(files: list[Input], run: CheckRun, context: CheckContext) -> Generator[FileResult]:
    """Yield the result of each file, in order; work elsewhere is abandoned if the run is interrupted."""
    report, judged_bytes = partial(run.report, sum(file.size for file in files)), 0

    def judge(file: Input) -> FileResult:
        nonlocal judged_bytes
        report(judged_bytes, 0)
        result = judge_file(file, context, partial(report, judged_bytes))
        judged_bytes += file.size
        return result

    silent = replace(context, options=replace(context.options, log=ignore, counter=None))  # can be pickled
    with suppress(InterruptedRunError):
        if isinstance(run.workers, int):
            in_worker = partial(judge_in_worker, context=silent)
            yield from map_files(files, run.workers, judge, in_worker, partial(report, 0))
            return
        from lore.run.results import maker_of  # noqa: PLC0415 - few runs have a cluster

        silent = replace(silent, root=os.path.abspath(silent.root))
        in_worker, maker = partial(judge_in_worker, context=silent), partial(maker_of, silent)
        yield from run.workers.results(files, ClusterJob(judge, in_worker, maker, partial(report, 0)))


def judge_in_worker(file: Input, context: CheckContext) -> FileResult:
    """Judge a file in another process; the result carries the lines to log."""
    log: list[str] = []
    result = judge_file(file, replace(context, options=replace(context.options, log=log.append)))
    result.log = log
    return result


_TABLE_OR_KEY = pattern(r"[ \t]*(?:(\[\[?)[ \t]*(?:tool\.lore\.)?([\w.]+)[ \t]*\]|([\w.]+)[ \t]*=)")


def _lines_of_settings(file: str) -> dict[str, int]:
    """Return the lines of tables and keys in a settings file, by their paths (`check.exempt[0]`); none without."""
    lines, counts, table = dict[str, int](), Counter[str](), ""
    with suppress(OSError), open(file, encoding="utf-8", errors="replace") as opened:
        for number, text in enumerate(opened, 1):
            if (match := _TABLE_OR_KEY.match(text)) is None:
                continue
            brackets, name, key = match.groups()
            if name:
                table = name if brackets == "[" else f"{name}[{counts[name]}]"
                counts[name] += 1
            lines.setdefault(f"{table}.{key}".lstrip(".") if key else table, number)
    return lines


def _find_over_budget(totals: RunTotals, context: CheckContext, lines: Mapping[str, int]) -> Iterator[Finding]:
    """Yield a finding for each budget in the settings, of the run or of an entry of `per_path`, that is exceeded."""
    place = Place(context.settings or "lore.toml")
    for name in BudgetEntries._fields:
        for number, limits in enumerate((context.policy, *context.policy.per_path), -1):
            used, most = totals.used[name, number], getattr(limits, name)
            if most is not None and used > most:
                key = f"check.{name}" if number < 0 else f"check.per_path[{number}].{name}"
                path = limits.path if isinstance(limits, PerPath) else ""
                code, evidence = Code.BREAKS_ABOVE_BUDGET, OverBudget("breaks", used, most, path)
                if name == "max_lost_tokens":
                    code, evidence = Code.LOST_TOKENS_ABOVE_BUDGET, OverBudget("lost-tokens", used, most, path)
                yield finding(code, place, evidence, json_path=key, line=lines.get(key))


def unused_exemptions(totals: RunTotals, context: CheckContext, lines: Mapping[str, int]) -> Iterator[Finding]:
    """Yield a finding for each exemption in the settings that no finding of this run needed."""
    policy = context.policy
    if not policy.exempt:
        return
    looks_for, may_be_needed = cache(context.option_ruling.looks_for), cache(_unjudged_matcher(totals, context.root))
    partly, whole = (
        {number for key in keys for number in policy.exempt_paths.numbers(key)}
        for keys in (totals.partial_keys, totals.complete_keys)
    )
    for number, exempt in enumerate(policy.exempt):
        if totals.excused[number] or number in partly or not looks_for(exempt.code.upper()):
            continue
        if not may_be_needed(exempt.path):
            where = " ".join(filter(None, (exempt.path, exempt.chain, exempt.json_path)))
            evidence = Unneeded("exemption" if number in whole else "path", exempt.code, where, exempt.reason)
            place, at = Place(context.settings or "lore.toml"), f"check.exempt[{number}]"
            yield finding(Code.EXEMPTION_UNUSED, place, evidence, json_path=at, line=lines.get(at))


def _unjudged_matcher(totals: RunTotals, root: str) -> Callable[[str], bool]:
    """Return a predicate for paths in settings: may one match a file in the settings' folder that was not judged?

    True if that is unknown: the path is remote, hidden or outside; neither `..` nor a link leads out of the folder.
    Each folder is listed once.
    """

    @cache
    def unjudged_keys(path: str) -> list[str]:
        try:
            files = inputs([path])
        except LoreError:  # nothing is at this path
            return []
        keys = [key_of(file.path, root) for file in files if os.path.lexists(file.path)]
        return [key for key in keys if key not in totals.complete_keys]

    def may_match(path: str) -> bool:
        path_pattern = PathPattern(path)
        suffix = "" if path_pattern.is_literal else path_pattern.text.removeprefix(path_pattern.folder)
        is_hidden = suffix != "." and (suffix.startswith(".") or "/." in suffix)  # hidden files are not listed
        base = path_pattern.text if path_pattern.is_literal else path_pattern.folder.rstrip("/")
        folder, top = _path_of(base, root) if base else root or os.curdir, root or current_folder()
        if filesystem.is_remote(path) or is_hidden or not top:  # no `top`: the current folder was deleted
            return True
        top, real_folder = os.path.realpath(top), os.path.realpath(folder)
        if real_folder != top and not real_folder.startswith(os.path.join(top, "")):
            return True
        return any(map(path_pattern.matches, unjudged_keys(folder)))

    return may_match
