"""`lore report`: recordings in a form that another program shows."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.running import lore, put
from cli.test_overview import FALLEN, claude
from helpers.schemas import valid
from report.test_trace import valid as valid_trace

TRACE = ("report", "--format", "trace", "--no-cache")


def test_slices_are_requests_of_simulate(desk):
    claude("a", FALLEN, path="logs/{}.jsonl")
    result = lore(*TRACE, "logs")
    assert (result.code, result.err) == (0, "")
    valid(result.json, "trace")
    slices = valid_trace(result.json)
    turns = lore("simulate", "logs", "--json").json["turns"]
    assert [drawn["args"]["read_tokens"] for drawn in slices] == [turn["billed"]["read_tokens"] for turn in turns]
    assert [drawn["ts"] / 1e6 for drawn in slices] == [turn["at"] - turns[0]["at"] for turn in turns]
    assert slices[-1]["name"].startswith("turn 4: ")
    counters = [event["args"] for event in result.json["traceEvents"] if event["ph"] == "C"]
    assert counters[1] == {"read": 10_000, "written": 1_000, "uncached": 10}


def test_file_is_replaced_only_with_force(desk):
    claude("a", FALLEN, path="logs/{}.jsonl")
    result = lore(*TRACE, "logs", "-o", "trace.json")
    wrote = f"wrote trace.json, {Path('trace.json').stat().st_size:,} bytes"
    assert (result.code, result.out) == (0, "")
    assert result.err == f"{wrote}: open it at https://ui.perfetto.dev\n"
    valid_trace(json.loads(Path("trace.json").read_bytes()))
    assert lore(*TRACE, "logs", "-o", "trace.json").err.startswith("error: trace.json exists")
    assert lore(*TRACE, "logs", "-o", "trace.json", "--force").code == 0
    assert lore(*TRACE, "logs", "-o", "logs/a.jsonl", "--force").err.startswith(
        "error: logs/a.jsonl is an input of this command"
    )


# `-o page.html` alone wrote a trace into it.
def test_name_of_the_output_selects_a_page(desk):
    claude("a", FALLEN, path="logs/{}.jsonl")
    assert lore("report", "logs", "--no-cache", "-o", "page.html").code == 0
    assert "<!doctype html>" in Path("page.html").read_text()
    assert lore("report", "logs", "--no-cache", "-o", "page.html", "--format", "trace", "--force").code == 0
    valid_trace(json.loads(Path("page.html").read_bytes()))


def test_trace_is_not_written_to_terminal(desk):
    claude("a", FALLEN, path="logs/{}.jsonl")
    reading, writing = os.openpty()
    with open(writing, "wb", buffering=0) as terminal:
        command = [sys.executable, "-m", "lore", *TRACE, "logs"]
        result = subprocess.run(command, stdout=terminal, stderr=subprocess.PIPE, text=True, check=False)
    os.close(reading)
    assert result.returncode == 2
    assert result.stderr == (
        "error: a trace is for another program, not for a terminal\nhint: name a file: -o trace.json\n"
    )
    assert valid_trace(lore(*TRACE, "logs", "-o", "-").json)


def test_request_in_two_files_is_in_trace_once(desk):
    claude("a", FALLEN, path="logs/{}.jsonl")
    Path("logs/b.jsonl").write_bytes(Path("logs/a.jsonl").read_bytes())
    result = lore(*TRACE, "logs")
    assert len(valid_trace(result.json)) == 4
    assert result.err == "note: 4 requests in several files are in the trace once\n"


def test_unreadable_file_is_named_and_rest_is_traced(desk):
    claude("a", FALLEN, path="logs/{}.jsonl")
    Path("logs/b.jsonl").symlink_to("nowhere")
    result = lore(*TRACE, "logs")
    assert result.code == 3
    assert result.err.startswith("not in the trace: logs/b.jsonl")
    assert len(valid_trace(result.json)) == 4


def test_json_and_page_show_cost_of_recordings(desk):
    claude("a", FALLEN, path="logs/{}.jsonl")
    claude("b", FALLEN, path="other/{}.jsonl")
    summed = lore("report", "--format", "json", "--no-cache", "logs").json
    valid(summed, "overview")
    assert (summed["total"]["sessions"], summed["total"]["requests"]) == (1, 4)
    result = lore("report", "--format", "html", "--no-cache", "logs", "-o", "page.html")
    assert (result.code, result.out, result.err.partition(":")[0]) == (0, "", "page.html")
    page = Path("page.html").read_text("utf-8")
    assert f"{summed['total']['requests']} requests" in page
    assert 'class="plot"' in page
    assert "b.jsonl" not in page
    assert lore("report", "--format", "html", "--no-cache", "logs").out == page
    assert lore("report", "--format", "html", "--no-cache", "logs", "other", "-o", "out").code == 0
    assert len(list(Path("out/sessions").iterdir())) == 2
    assert lore("report", "--format", "html", "--no-cache", "logs", "-o", "page.html", "--force", "--redact").code == 0


@pytest.mark.parametrize(("args", "message"), [
    (("absent.jsonl",), "error: cannot read absent.jsonl"),
    (
        ("text.txt",),
        "error: text.txt: unrecognised format (plain text)\nhint: name recordings: `lore formats` lists",
    ),
    (("empty",), "error: there are no recordings\nhint: looked in empty"),  # it did not say where
    (("--format", "pdf"), "error: --format pdf: no such form\nhint: forms: trace, json, html\n"),
    (("--format", "json", "absent.jsonl"), "error: cannot read absent.jsonl"),
    (("--format", "html", "absent.jsonl", "-o", "x.html"), "error: cannot read absent.jsonl"),
    (("--format", "json", "empty"), "error: there are no recordings\nhint: looked in empty"),
    (("--format", "html", "empty", "-o", "text.txt"), "error: text.txt is a file"),
    (("--format", "html", "empty", "-o", "old.html"), "error: old.html exists"),
    (("--open", "empty"), "error: --open shows a page, and trace is none\nhint: --format html --open"),
])  # fmt: skip
def test_impossible_report_exits_2(desk, args, message):
    put("text.txt", b"hello\n")
    put("old.html", b"hello\n")
    Path("empty").mkdir()
    result = lore("report", "--no-cache", *args)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(message), result.err
