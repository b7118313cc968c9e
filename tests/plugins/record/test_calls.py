"""The records of a call: each chunk of an answer, no gaps, and disk errors."""

import base64
import errno
import json

from lore.formats.captures.lore_capture import LoreCapture
from lore.model.turn import Exchange
from lore.testing import everything
from lore_plugins.record.journal import Journal, RecordedCall

OPENING = b'{"lore_capture":1}\n'
HEAD = {"method": "POST", "url": "https://api.anthropic.com/v1/messages", "headers": {}, "account": ""}
BODY = b'{"model":"claude-opus-5","max_tokens":1,"messages":[{"role":"user","content":"x"}]}'


class Disk(Journal):
    """A capture in which the appends with these numbers fail."""

    def __init__(self, path, tell, *refused):
        super().__init__(str(path), tell)
        self.refused, self.count = refused, 0

    def _write(self, line):
        self.count += 1
        if self.count in self.refused:
            raise OSError(errno.ENOSPC, "No space left on device")
        super()._write(line)


def passed(path, *refused, chunks=(b'{"id":"msg_1",', b'"usage":{"input_tokens":1,', b'"output_tokens":1}}')):
    """Write a call; return its records and the messages."""
    told = []
    disk = Disk(path, told.append, *(number + 1 for number in refused))
    disk.open_run(OPENING)
    call = RecordedCall("a-1", disk, lambda: 100.0)
    call.request.begin(HEAD)
    call.request.add(BODY)
    call.request.end()
    call.response.begin({"status": 200, "headers": {"content-type": "application/json"}})
    call.response.write(b"")
    for chunk in chunks:
        call.response.write(chunk)
    call.ended = "complete"
    call.close()
    disk.close()
    kept = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in kept.splitlines()][1:], told, call


def exchanges(path):
    return [read.value for read in everything(LoreCapture(), path.read_bytes()) if isinstance(read.value, Exchange)]


def test_chunk_that_splits_a_character_is_kept_exactly(tmp_path):
    text = '{"id":"msg_1","content":[{"type":"text","text":"é🙂"}]}'.encode()
    chunks = [text[at : at + 1] for at in range(len(text))]
    records, _, _ = passed(tmp_path / "c.jsonl", chunks=chunks)
    assert (
        b"".join(record.get("body", "").encode() + base64.b64decode(record.get("base64", "")) for record in records[2:])
        == text
    )
    assert exchanges(tmp_path / "c.jsonl")[0].response_id == "msg_1"


def test_answer_ends_where_the_disk_refused_it(tmp_path):
    records, told, call = passed(tmp_path / "c.jsonl", 4)  # the second of three chunks
    assert [record.get("body") for record in records[1:]] == [None, '{"id":"msg_1",', None]
    assert records[-1]["ended"] == "not written whole"
    assert not call.is_written
    assert ["no space left on device; requests are still forwarded" in text for text in told] == [True, False]


def test_answer_to_an_unwritten_request_is_not_written(tmp_path):
    records, _, call = passed(tmp_path / "c.jsonl", 1)
    assert (records, call.is_written) == ([], False)
    assert not (tmp_path / "c.jsonl").exists()


def test_request_is_written_before_an_early_answer(tmp_path):
    path = tmp_path / "c.jsonl"
    journal = Journal(str(path), print)
    journal.open_run(OPENING)
    call = RecordedCall("a-1", journal, lambda: 100.0)
    call.request.begin(HEAD)
    call.request.add(b"begin")
    call.request.flush()
    call.response.begin({"status": 413, "headers": {}})
    call.response.write(b"too much")
    call.ended = "complete"
    call.close()
    journal.close()
    records = [json.loads(line) for line in path.read_bytes().splitlines()][1:]
    assert [(record["part"], record.get("ended")) for record in records] == [
        ("request", None), ("response", None), ("request", "complete"), ("response", "complete"),
    ]  # fmt: skip
