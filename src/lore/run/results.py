"""Results of single files, which may be judged anywhere and merged in any order: `lore.judge(file)` and `Result.merge`.

A `Result` keeps one record for each file, since copies of requests, and which findings are shown, depend on the order
of all files; `outcome` adds the files up as `lore check` does. Merging is associative and commutative, and a `Result()`
changes nothing. Results of another version of lore, or of other settings, are refused. Merging costs O(1), bytes and
sums O(files + findings + requests with an id); a result takes about 1 KB a file and 70 bytes a request.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

import lore
from lore.config import find
from lore.errors import LoreError
from lore.judge.totals import VERSION, FileResult, RunTotals, decode, encode
from lore.model import canonical
from lore.model.jsonslice import array, object_of, raw_members
from lore.model.results import CheckResult
from lore.plugins import entry_points
from lore.recording.base import PLUGIN_GROUPS, load_plugins
from lore.recording.corpus import show
from lore.recording.inputs import Input, drop_copies, inputs, start_key
from lore.recording.opening import Options
from lore.report.forms.base import render
from lore.run.checking.check import CheckOutcome, conclude
from lore.run.checking.verdicts import CheckContext, judge_file

_SAME = "judge all files with one version of lore and the same settings"
_Order = tuple[int, tuple[tuple[int, str], ...]]


class _ResultDocument(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    lore_result: int = 0
    maker: str = ""
    files: list[Raw] = []  # number, path and result of each


def recordings(*paths: str | os.PathLike[str]) -> list[Input]:
    """Return the files that `lore check` judges under these paths, in its order, each once."""
    files = drop_copies(inputs([os.fspath(path) for path in paths]), Options())
    return [replace(file, number=number) for number, file in enumerate(files)]


def judge(file: str | os.PathLike[str] | Input, *, config: str | None = None, root: str = "") -> Result:
    """Return the result of judging one file: a path, or one of `recordings`. Can be called from any thread or process.

    `config` names a file of settings; none is searched for. Paths in settings and fingerprints are relative to `root`
    (empty: the current folder, which may differ between workers).

    A file that is not a recording counts as skipped, and one that cannot be read makes the result incomplete; both
    raise LoreError only if `recordings` was given the name of the file itself. Wrong settings raise LoreError, too.
    Cost O(bytes of the file).
    """
    if not isinstance(file, Input):
        file = Input(os.fspath(file), is_named=False)
    context, maker = _settings(config)
    result = judge_file(file, msgspec.structs.replace(context, root=root))
    if result.error is not None:
        raise result.error
    return Result(maker, {_order(file.number, file.path): (file.path, encode(result))})


class Result:
    """The results of one or more files. Pickles as its bytes."""

    __slots__ = ("_files", "_maker", "_parts")

    def __init__(self, maker: str = "", files: dict[_Order, tuple[str, bytes]] | None = None) -> None:
        self._maker = maker
        self._files = files or {}
        self._parts: tuple[Result, ...] = ()

    def merge(self, *others: Result) -> Result:
        """Return the result of all files; raises LoreError if lore or settings differed.

        A file that several results have counts once. If they disagree about it, LoreError is raised on the first use of
        the merged result (`to_bytes`, `len`, `==`, `outcome`).
        """
        makers = {result._maker for result in (self, *others)} - {""}
        if len(makers) > 1:
            raise LoreError("these results were made by different versions of lore, or by other settings", hint=_SAME)
        merged = Result(makers.pop() if makers else "")
        merged._parts = (self, *others)
        return merged

    def to_bytes(self) -> bytes:
        """Return JSON, the same bytes for the same files, however they were merged."""
        records = sorted(self._join_parts().items())
        files = [Raw(b"[%d,%s,%s]" % (order[0], canonical.encode(path), record)) for order, (path, record) in records]
        return msgspec.json.encode(_ResultDocument(lore_result=VERSION, maker=self._maker, files=files))

    @classmethod
    def from_bytes(cls, data: bytes) -> Result:
        """Return the result in these bytes; raises LoreError if they hold none, or one of another version."""
        try:
            members = raw_members(data) or {"": b""}
            elements = map(array, array(members.pop("files", b"")))  # names of files may not be UTF-8
            document = msgspec.json.decode(object_of(members), type=_ResultDocument)
            entries = [(int(number), canonical.text_of(path), record) for number, path, record in elements]
        except ValueError:
            raise LoreError("this is not a result of lore.judge", hint="give the bytes of Result.to_bytes") from None
        if document.lore_result != VERSION:
            message = f"a result of version {document.lore_result}, and this lore reads version {VERSION}"
            raise LoreError(message, hint=_SAME)
        return cls(document.maker, {_order(number, path): (path, record) for number, path, record in entries})

    def outcome(self, *, config: str | None = None) -> CheckOutcome:
        """Return the summary of all files, whether a finding is an error, and whether a file could not be judged.

        `config` names the settings with which the files were judged. Raises LoreError if lore or the settings changed
        since, or if the bytes were not written by `to_bytes`.
        """
        context, maker = _settings(config)
        if self._maker not in ("", maker):
            raise LoreError("this result was made by another version of lore, or by other settings", hint=_SAME)
        totals, files = RunTotals(), list[tuple[bool, tuple[float, int, str], int, bytes]]()
        for place, (_, (path, record)) in enumerate(sorted(self._join_parts().items())):
            result = _decode_result(record)
            files.append((not context.is_exempted(result.key), start_key(result.start, path), place, record))
        for _, _, place, record in sorted(files):
            totals.take(_decode_result(record), place)
        return CheckOutcome(conclude(totals, context), totals.failed, totals.unjudged)

    def checked(self, *, config: str | None = None) -> CheckResult:
        """Return the summary, findings and problems of all files; see `outcome`."""
        return self.outcome(config=config).result

    def json(self, *, config: str | None = None) -> str:
        """Return what `lore check --json` prints for these files, without the line feed; see `outcome`."""
        return render(self.checked(config=config))

    def __len__(self) -> int:
        return len(self._join_parts())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Result) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    def __reduce__(self) -> tuple[object, ...]:
        return Result.from_bytes, (self.to_bytes(),)

    def _join_parts(self) -> dict[_Order, tuple[str, bytes]]:
        """Return the record of each file; merged parts are joined on first use."""
        parts = [*self._parts]
        while parts:  # a chain of merges may be as long as there are files
            part = parts.pop()
            parts += part._parts
            for order, (path, record) in part._files.items():
                if self._files.setdefault(order, (path, record))[1] != record:
                    message = f"{show(path)} was judged twice with different results: it changed in between"
                    raise LoreError(message, hint="judge it again")
        self._parts = ()
        return self._files


def _decode_result(record: bytes) -> FileResult:
    try:
        return decode(record)
    except ValueError:
        raise LoreError("this is not a result of lore.judge", hint="give what Result.to_bytes wrote") from None


def _order(number: int, path: str) -> _Order:
    """Return the sort key of a file: files of a folder precede those of its folders, as in `lore check`."""
    *folders, name = path.replace(os.sep, "/").split("/")
    return number, (*((1, folder) for folder in folders), (0, name))


def _settings(config: str | None) -> tuple[CheckContext, str]:
    """Return the settings in a file, read again when it changes, and their digest."""
    status = os.stat(config) if config is not None and os.path.isfile(config) else None
    return _read_settings(config, None if status is None else (status.st_mtime_ns, status.st_size))


@lru_cache(maxsize=16)
def _read_settings(path: str | None, written: tuple[int, int] | None) -> tuple[CheckContext, str]:
    load_plugins()
    context = CheckContext()
    if path is not None:
        context = replace(CheckContext.of(find(path, None)), settings=path, root="")
    context.check_names()
    return context, maker_of(context)


def maker_of(context: CheckContext) -> str:
    """Return a digest of program, settings and rules; raises LoreError if the user's file of rules is unreadable."""
    dated = context.dated
    dated.check_file()
    rules = Path(dated.path).read_bytes() if dated.path else b""
    parts = (
        VERSION, _program(), context.options.format, context.options.rules, context.policy,
        hashlib.sha256(rules).hexdigest(), dated.tolerance, dated.labels, context.audience, context.redact,
    )  # fmt: skip
    return hashlib.sha256(json.dumps(list(map(repr, parts))).encode()).hexdigest()


@cache
def _program() -> str:
    """Return a digest of this lore: version, code and data, plug-ins, and the packages that it can unpack with."""
    digest = hashlib.sha256(lore.__version__.encode())
    src = Path(lore.__file__).parents[1]
    files = [path for package in ("lore", "lore_plugins") for path in (src / package).rglob("*")]
    for path in sorted(path for path in files if path.suffix in (".py", ".toml", ".json")):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(src).as_posix()}\0{content}".encode())
    plugins = {f"{point.name}={point.value}" for group in PLUGIN_GROUPS for point in entry_points(group)}
    unpacking = [*filter(find_spec, ("zstandard", "brotli")), sys.version_info >= (3, 14)]  # which has zstd
    digest.update(json.dumps([sorted(plugins), unpacking]).encode())
    return digest.hexdigest()
