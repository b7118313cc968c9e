"""What was judged before: results of files that did not change are taken from here, and their files not opened.

In: inputs, and how they are judged. Out: results. Rules: a result stands for a file of the same name whose size, times
of change and inode are those that it had when it was judged; where these differ, for one of the same content (SHA-256).
A remote file is the same where its listing has the same size and ETag. It is taken only where the same lore judges by
the same settings (`program.py`). A file that was written within two seconds before it was judged, or that changed
meanwhile, is not kept, since a clock cannot tell the two apart; nor is what is more than one file (a folder that is one
recording, a session of a database, standard input), and what could not be read.

How it lies there, in a folder or below a prefix of a bucket: segments, each written whole under a name made of what it
holds, and never changed, so that any number of runs may share a place and no write needs a condition. Many segments are
merged into one at the end of a run; a record that no run took for 60 days goes.

What is believed: a record whose digest holds, made of the settings, the file's name and all that is kept. With a key of
the user's the digest is signed by it, so that whoever may write there without the key can delete results and forge
none; without one, who can write there is trusted. What is damaged, foreign, or deleted meanwhile is judged anew.

Cost: segments are read when a run begins and held (some 500 bytes a file); O(1) a file that did not change; of a remote
file that is judged one request, which looks whether it is still what was listed.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from hmac import compare_digest
from typing import BinaryIO

import msgspec

from lore.errors import LoreError
from lore.files import make_folder
from lore.judge.file_record import decode, encode
from lore.judge.totals import FileResult
from lore.model.codes import Code
from lore.recording import corpus, filesystem
from lore.recording.inputs import Input, place_of
from lore.run.checking.program import maker_of
from lore.run.checking.verdicts import CheckConfig, judge_file

SETTLED_SECONDS = 2.0
KEPT_DAYS = 60  # days that an unused result is kept
REFRESHED_DAYS = 20  # a record that is taken is written again after so many, so that it is not thrown away
SEGMENTS = 8  # more are merged
BATCH = 2_000  # results that a run which is killed loses at most
BATCH_BYTES = 1024**3  # or so much that was judged
_DAY = 86_400.0
_MAGIC = b"lore state 2\n"
_HEAD = struct.Struct("<16sI16s")  # key, length of what follows, digest of both
_LARGEST = 256 * 1024 * 1024  # bytes of a record, packed or unpacked: a larger one is not lore's
_LARGEST_SEGMENT = 2 * 1024**3  # bytes of records that lore takes of one file
SHORTEST_KEY = 16  # characters
_SEGMENT = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}\.state")


class _KeptResult(msgspec.Struct, frozen=True, array_like=True):
    """A result as it is kept: when it was last taken (in days), what the file was, what it gave."""

    day: int
    signature: str
    digest: str
    record: bytes


class CheckState:
    """Results of earlier runs, and those of this one. `tell` hears, once, that they could not be written."""

    def __init__(
        self, path: str, tell: Callable[[str], None], *, secret: str = "", now: float | None = None
    ) -> None:  # fmt: skip
        if not filesystem.is_remote(path) and "://" in path or path.lower().startswith("http"):
            message = f"results are kept in a folder or a bucket, not at {corpus.show(path)}"
            raise LoreError(
                message, hint="--state FOLDER, or s3://BUCKET/PREFIX with AWS_ENDPOINT_URL for its endpoint"
            )
        if 0 < len(secret) < SHORTEST_KEY:
            raise LoreError(f"LORE_STATE_KEY has less than {SHORTEST_KEY} characters", hint="openssl rand -hex 32")
        self._secret = hashlib.sha512(secret.encode("utf-8", "surrogateescape")).digest() if secret else b""
        self._shown, self._root = corpus.show(path), os.path.join(_absolute(path), "")
        try:
            if not filesystem.is_remote(path):
                make_folder(path)
        except OSError as error:
            raise self._unusable(error) from None
        self._tell: Callable[[str], None] | None = tell
        self._day = int((time.time() if now is None else now) / _DAY)
        self._maker, self._seal = "", b""
        self._segments: set[str] = set()
        self._records: dict[bytes, bytes] = {}
        self._fresh: set[bytes] = set()
        self._judged = 0  # bytes since the last segment

    def holds(self, file: Input) -> bool:
        """Tell whether an input is a file of the state itself, which lies among recordings, or beside them."""
        return file.path.endswith(".state") and _absolute(file.path).startswith(self._root)

    def open(self, config: CheckConfig) -> None:
        """Read what earlier runs kept that judged as this one does; raises LoreError where nothing can be kept there.

        What cannot be read at the moment is told, and judged anew.
        """
        self._seal = hashlib.blake2b(maker_of(config).encode(), key=self._secret).digest()
        self._maker = hashlib.blake2b(self._seal, digest_size=8, person=b"name").hexdigest()
        try:
            written = filesystem.files(self._root)
        except ConnectionError as error:
            self._lacks(error)
            return
        except OSError as error:
            raise self._unusable(error) from None
        for name in sorted(written, key=lambda name: (written[name], name)):  # of two records the newer holds
            if _SEGMENT.fullmatch(name) and name.startswith(self._maker):
                try:
                    with filesystem.opened(self._root + name) as file:
                        self._records.update(_records(file, self._seal))
                    self._segments.add(name)
                except FileNotFoundError:  # merged by another run meanwhile
                    continue
                except OSError as error:
                    self._lacks(error)

    def look(self, file: Input, config: CheckConfig) -> Input | None:
        """Return None where a file did not change, else the file with the digest of the content that is known."""
        kept = self._kept(file, config)
        if kept is None:
            return file
        return None if kept.signature == signature_of(file) else file._replace(known=kept.digest)

    def result(self, file: Input, config: CheckConfig) -> FileResult:
        """Return what is kept of a file that did not change."""
        kept = self._kept(file, config)
        return self._taken(file, config, kept, "" if kept is None else kept.signature)

    def kept(self, file: Input, config: CheckConfig, result: FileResult) -> FileResult:
        """Keep the result of a file, or return the one that is kept of its content."""
        source = result.source
        if source.unchanged:
            return self._taken(file, config, self._kept(file, config), source.signature)
        unread = any(problem.code == Code.UNREADABLE_FILE for problem in result.problems)
        if source.digest and result.error is None and not unread:
            log, result.log = result.log, []
            self._keep(file, config, _KeptResult(self._day, source.signature, source.digest, encode(result)))
            result.log = log
            self._judged += file.size
            if len(self._fresh) >= BATCH or self._judged >= BATCH_BYTES:
                self.save()
        return result

    def save(self) -> None:
        """Write what is new. Where that fails, nothing is kept of it, and that is said once."""
        self._judged = 0
        try:
            if self._fresh:
                self._write(self._fresh)
        except OSError as error:
            self._say(f"results could not be kept ({_reason(error)}): the next run judges these files again")
        self._fresh = set()

    def close(self) -> None:
        """Write what is new, merge many segments, and throw old ones away."""
        self.save()
        if len(self._segments) <= SEGMENTS:
            return
        merged = self._segments.copy()
        days = {key: struct.unpack_from("<I", packed)[0] for key, packed in self._records.items()}
        recent = {key for key, day in days.items() if self._day - day <= KEPT_DAYS}
        try:
            for name in merged - {self._write(recent)}:
                self._delete(name)
            self._expire()
        except OSError as error:
            self._say(f"results could not be merged ({_reason(error)}): the next run tries again")

    def _say(self, text: str) -> None:
        if self._tell is not None:
            self._tell(text)
        self._tell = None

    def _lacks(self, error: OSError) -> None:
        self._say(f"results of earlier runs could not be read ({_reason(error)}): their files are judged again")

    def _unusable(self, error: OSError) -> LoreError:
        if isinstance(error, LoreError):
            return error
        return LoreError(f"cannot keep results in {self._shown}: {_reason(error)}", hint="--state names a folder")

    def _taken(self, file: Input, config: CheckConfig, kept: _KeptResult | None, signature: str) -> FileResult:
        """Return a result that was kept; where it cannot be read after all, the file is judged."""
        try:
            result = None if kept is None else decode(kept.record, config.ruling)
        except (ValueError, RecursionError):
            result = None
        if kept is None or result is None or result.error is not None:  # of which none is kept
            return judge_file(file, config)
        if kept.signature != signature or self._day - kept.day > REFRESHED_DAYS:
            self._keep(file, config, _KeptResult(self._day, signature, kept.digest, kept.record))
        result.log = [f"{place_of(file.path, config.root).path}: unchanged, its result is kept"]
        return result

    def _kept(self, file: Input, config: CheckConfig) -> _KeptResult | None:
        packed = self._records.get(_key(file, config))
        if packed is None:
            return None
        try:
            return msgspec.msgpack.decode(_unpacked(packed), type=_KeptResult)
        except (msgspec.DecodeError, ValueError, zlib.error):
            return None

    def _keep(self, file: Input, config: CheckConfig, kept: _KeptResult) -> None:
        key = _key(file, config)
        self._records[key] = struct.pack("<I", kept.day) + zlib.compress(msgspec.msgpack.encode(kept), 1)
        self._fresh.add(key)

    def _write(self, keys: set[bytes]) -> str:
        parts = [_MAGIC]
        for key in sorted(keys):
            packed = self._records[key]
            parts += (_HEAD.pack(key, len(packed), _check(key, packed, self._seal)), packed)
        data = b"".join(parts)
        name = f"{self._maker}-{hashlib.sha256(data).hexdigest()[:16]}.state"
        filesystem.write(self._root + name, data)
        self._segments.add(name)
        return name

    def _delete(self, name: str) -> None:
        self._segments.discard(name)
        with suppress(FileNotFoundError):  # another run was first
            filesystem.delete(self._root + name)

    def _expire(self) -> None:
        for name, written in filesystem.files(self._root).items():
            ours = _SEGMENT.fullmatch(name) or (name.startswith(".") and name.endswith(".part") and ".state." in name)
            if ours and name not in self._segments and written / _DAY < self._day - KEPT_DAYS:
                self._delete(name)


def signature_of(file: Input) -> str:
    """Say what tells without reading that a file is the same: size, times of change, inode; empty: nothing does.

    The time of its last write must lie far enough back that a later one has another.
    """
    if file.stream or file.error is not None or not corpus.stands_alone(file.path):
        return ""
    if filesystem.is_remote(file.path):
        return file.tag and f"{file.size}.{file.tag}"
    try:
        status = os.stat(file.path)
    except (OSError, ValueError):
        return ""
    if not stat.S_ISREG(status.st_mode) or time.time() - status.st_mtime < SETTLED_SECONDS:
        return ""
    return f"{status.st_size}.{status.st_mtime_ns}.{status.st_ctime_ns}.{status.st_ino}"


def digest_of(file: Input) -> str:
    """Return the SHA-256 of a file's bytes; empty where they cannot be read. Cost O(bytes).

    Of a remote one, which is not read twice, the ETag that was listed.
    """
    if filesystem.is_remote(file.path):
        return file.tag
    try:
        with open(file.path, "rb") as data:
            return hashlib.file_digest(data, "sha256").hexdigest()
    except (OSError, ValueError):
        return ""


def is_as_listed(file: Input) -> bool:
    """Tell whether a remote file was read with the ETag that was listed; of one that is here, its signature says so."""
    with suppress(OSError):
        return not filesystem.is_remote(file.path) or filesystem.tag_read(file.path) == file.tag
    return False


def _absolute(path: str) -> str:
    if not filesystem.is_remote(path):
        return os.path.abspath(path)
    from lore.recording import remote  # noqa: PLC0415 - few paths are remote

    place = remote.place_of(path)
    return f"{place.scheme}://{place.root}/{place.key}"


def _reason(error: OSError) -> str:
    return error.message if isinstance(error, LoreError) else (error.strerror or str(error)).lower()


def _key(file: Input, config: CheckConfig) -> bytes:
    place = place_of(file.path, config.root)
    named = file.named and not file.optional  # else a file that is no recording is passed over
    spelled = "\0".join((place.path, place.key, str(named))).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(spelled, digest_size=16).digest()


def _check(key: bytes, packed: bytes, seal: bytes) -> bytes:
    return hashlib.blake2b(key + packed, digest_size=16, key=seal).digest()


def _unpacked(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    data = unpacker.decompress(packed[4:], _LARGEST)
    if not unpacker.eof:
        raise ValueError("no record is so long")
    return data


def _records(file: BinaryIO, seal: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the records of a segment as far as it is whole; what its digest does not hold for is not kept."""
    left = _LARGEST_SEGMENT - len(_MAGIC)
    begun = file.read(len(_MAGIC)) == _MAGIC
    while begun and len(head := file.read(_HEAD.size)) == _HEAD.size:
        key, length, check = _HEAD.unpack(head)
        left -= _HEAD.size + length
        if not 4 <= length <= _LARGEST or left < 0:
            return
        packed = file.read(length)
        if len(packed) != length or not compare_digest(_check(key, packed, seal), check):
            return
        yield key, packed
