"""Laws of merging: any split of the files, judged in any order and merged as any tree, gives the same bytes, which add
up to what one process says.
"""

import json
import os
import pickle
import re
import sys
import textwrap
from functools import reduce
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lore
from cli.running import lore as run
from cli.running import put
from lore.errors import LoreError
from lore.judge import totals
from run.logs import family, put_logs


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """The results of each file of a folder, and what one process says of all."""
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("logs"))
    put_logs()
    yield [lore.judge(file) for file in lore.recordings("logs")], run("check", "logs", "--json", "--jobs", "1")
    os.chdir(before)


@given(st.data())
def test_any_split_and_order_gives_equal_bytes(logs, data):
    parts, once = logs
    waiting = data.draw(st.permutations(parts))
    while len(waiting) > 1:
        at = data.draw(st.integers(0, len(waiting) - 2))
        merged = waiting[at].merge(waiting[at + 1])
        waiting[at : at + 2] = [pickle.loads(pickle.dumps(merged)) if data.draw(st.booleans()) else merged]
    assert waiting[0].to_bytes() == lore.Result().merge(*parts).to_bytes()
    assert waiting[0].json() + "\n" == once.out


def test_merged_outcome_equals_the_command(logs):
    parts, once = logs
    outcome = parts[0].merge(*parts[1:]).outcome()
    assert (outcome.failed, outcome.incomplete, once.code) == (True, False, 1)
    assert outcome.result.summary.copied > 0
    assert len(parts[0].merge(*parts[1:])) == len(parts)


def test_long_chain_of_merges_does_not_overflow(logs):
    parts, _ = logs
    merged = reduce(lore.Result.merge, [parts[0]] * 5_000)
    assert merged.to_bytes() == parts[0].to_bytes()


def test_decoded_results_merge_to_equal_bytes(logs):
    parts, _ = logs
    again = [lore.Result.from_bytes(part.to_bytes()) for part in parts]
    assert [part.to_bytes() for part in again] == [part.to_bytes() for part in parts]
    assert len(set(again)) == len(parts)


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are UTF-8")
def test_result_of_undecodable_name_is_written(desk):
    put_logs()
    os.mkdir("nu")
    Path("logs/c/0.jsonl").rename(os.fsdecode(b"nu/\xff.jsonl"))
    judged = lore.judge(lore.recordings("nu")[0])
    again = pickle.loads(pickle.dumps(judged))
    assert again.to_bytes() == judged.to_bytes()
    assert (len(again.merge(judged)), again.json() + "\n") == (1, run("check", "nu", "--json").out)


def test_result_of_another_version_is_refused(logs):
    written = json.loads(logs[0][0].to_bytes())
    with pytest.raises(LoreError, match="a result of version 99, and this lore reads version"):
        lore.Result.from_bytes(json.dumps({**written, "lore_result": 99}).encode())
    with pytest.raises(LoreError, match="not a result"):
        lore.Result.from_bytes(b"{}{")
    other = lore.Result.from_bytes(json.dumps({**written, "maker": "another"}).encode())
    with pytest.raises(LoreError, match="different versions"):
        other.merge(logs[0][1])
    with pytest.raises(LoreError, match="another version"):
        other.json()


def test_damaged_result_is_refused(logs):
    written = json.loads(logs[0][0].to_bytes())
    written["files"][0][2] = [1, 2]
    with pytest.raises(LoreError, match="not a result"):
        lore.Result.from_bytes(json.dumps(written).encode()).json()


def test_file_judged_twice_counts_once(desk):
    put_logs()
    before = lore.judge("logs/c/0.jsonl")
    assert before.merge(before, lore.judge("logs/c/0.jsonl")).checked().summary.files == 1
    put("logs/c/0.jsonl", b"{}\n")
    with pytest.raises(LoreError, match=r"logs/c/0.jsonl was judged twice with different results"):
        before.merge(lore.judge("logs/c/0.jsonl")).json()


def test_results_of_different_settings_do_not_merge(desk):
    put_logs()
    put("lore.toml", b"[check]\nignore = ['LORE1']\nmax_breaks = 0\n")
    result = reduce(lore.Result.merge, [lore.judge(file, config="lore.toml") for file in lore.recordings("logs")])
    once = run("check", "logs", "--json", "--config", "lore.toml")
    assert result.json(config="lore.toml") + "\n" == once.out
    with pytest.raises(LoreError, match="other settings"):
        result.json()


def test_exemption_covers_copy_of_its_recording(desk):
    for name in ("a", "z"):
        put(f"logs/{name}.jsonl", *family(name, "3"))
    before = run("check", "logs", "--json").json["findings"]
    (finding,) = [row for row in before if row["path"] == "logs/a.jsonl" and row["severity"] != "note"]
    exempt = (
        f"[[check.exempt]]\ncode = '{finding['code']}'\npath = 'logs/z.jsonl'\nreason = 'the cache was switched off'\n"
    )
    put("lore.toml", exempt.encode())
    once = run("check", "logs", "--json", "--config", "lore.toml")
    assert [row for row in once.json["findings"] if row["severity"] != "note"] == []
    result = reduce(lore.Result.merge, [lore.judge(file, config="lore.toml") for file in lore.recordings("logs")])
    assert result.json(config="lore.toml") + "\n" == once.out


def test_named_input_that_is_unrecognised_raises(desk):
    put("note.txt", b"no recording")
    assert lore.judge("note.txt").checked().summary.skipped == 1
    assert lore.judge("nowhere.jsonl").outcome().incomplete
    with pytest.raises(LoreError, match="unrecognised format"):
        lore.judge(lore.recordings("note.txt")[0])


def test_large_numbers_and_surrogates_survive_encoding():
    result = totals.decode(_record())
    assert result.summary.lost_tokens == 2**70
    assert result.session == "\ud83d"
    assert totals.encode(result) == _record()


def _record():
    from lore.model.results import Summary

    return totals.encode(totals.FileResult("k", session="\ud83d", summary=Summary(lost_tokens=2**70)))


def guide_example(library):
    """The lines that the guide shows for a library, as one program."""
    text = (Path(lore.__file__).parent / "guide" / "many.md").read_text("utf-8")
    [example] = [block for block in re.findall(r"(?:^    .+\n)+", text, re.MULTILINE) if library in block]
    return textwrap.dedent(example)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", ["dask.bag", "ray", "spark"])
def test_guide_examples_give_equal_results(logs, library, monkeypatch):
    """Where the library is installed; those of Spark and Ray are large, and no part of the development tools."""
    names = {}
    pytest.importorskip({"spark": "pyspark"}.get(library, library))
    if library == "dask.bag":
        import dask

        dask.config.set(scheduler="synchronous")
    elif library == "spark":
        from pyspark.sql import SparkSession

        monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # else workers are the first `python3` of the path
        names["spark"] = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    exec(guide_example(library), names)
    assert names["result"].json() + "\n" == logs[1].out
