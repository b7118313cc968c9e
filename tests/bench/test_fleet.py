"""The simulated scheduler gives what can be worked out by hand; recorded tasks hold what `lore check` counts."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import captures, fleet
from bench.fleet import TASK_BYTES, TASK_FILES, Task, packed, simulate
from lore.judge.policy import Budgets
from lore.recording.inputs import Input
from lore.recording.opening import Options
from lore.run.checking import cluster
from lore.run.checking.check import check

ONES = [1.0] * 4


def tasks(*seconds: float, merge: float = 0.0) -> list[Task]:
    return [Task(TASK_BYTES if each < 5 else TASK_BYTES + 1, 1, 10, each, merge) for each in seconds]


def test_as_many_tasks_as_workers_end_together():
    assert simulate(tasks(2, 2, 2, 2), ONES) == (2, 2, 0, 4)


def test_the_long_task_lengthens_the_run_where_it_comes_last_and_not_where_it_comes_first():
    work = tasks(*[1] * 20, 5)
    last, first = (simulate(work, ONES + [1.0], large_first=wanted) for wanted in (False, True))
    assert (last.judged, first.judged) == (9, 5)
    assert last.idle == pytest.approx(1 - 25 / 45)
    assert first.idle == 0


def test_no_number_of_workers_is_faster_than_the_longest_task():
    assert simulate(tasks(1, 9, 1), [1.0] * 100).judged == 9


def test_a_slow_worker_takes_fewer_tasks_and_holds_the_end_up_by_one():
    assert simulate(tasks(1, 1, 1, 1), [1.0, 3.0]).judged == 3
    assert simulate(tasks(1, 1, 1), [1.0, 3.0]).judged == 3


def test_results_are_put_together_one_after_another():
    run = simulate(tasks(*[1] * 10, merge=0.5), [1.0] * 10)
    assert (run.judged, run.merged) == (1, 6)


def test_results_wait_for_those_of_earlier_files():
    run = simulate(tasks(4, 1, 1, 1, merge=0.25), [1.0, 1.0])
    assert (run.judged, run.merged, run.held) == (4, 5, 4)


def test_a_scheduler_that_is_slow_to_hand_out_holds_every_worker_up():
    assert simulate(tasks(*[0.5] * 8), [1.0] * 100, dispatch=1).judged == 8.5


def test_reading_adds_to_what_a_task_takes():
    assert simulate([Task(1_000, 4, 1, 2.0)], [1.0], rate=500, first_byte=0.25).judged == 5
    assert simulate([Task(1_000, 4, 1, 2.0)], [3.0], rate=500).judged == 8  # the network is as fast for a slow worker


def test_nothing_takes_no_time():
    assert simulate([], ONES) == (0, 0, 0, 0)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=60), st.integers(1, 12), st.booleans())
def test_a_run_is_within_the_bounds_of_any_scheduler_that_leaves_no_worker_idle(seconds, workers, large_first):
    """R. L. Graham, Bounds on Multiprocessing Timing Anomalies, SIAM J. Appl. Math. 17 (1969)."""
    run = simulate(tasks(*seconds), [1.0] * workers, large_first=large_first)
    total, longest = sum(seconds), max(seconds)
    assert run.judged >= max(longest, total / workers) * (1 - 1e-9)
    assert run.judged <= (total / workers + longest * (1 - 1 / workers)) * (1 + 1e-9)
    assert -1e-9 <= run.idle < 1
    assert run.merged == run.judged
    assert 1 <= run.held <= len(seconds)


def test_workers_for_an_hour_are_what_the_listing_leaves_of_it():
    assert fleet.needed(36_000, 0, 1) == 10
    assert fleet.needed(36_001, 0, 1) == 11
    assert fleet.needed(36_000, 1_800, 1) == 20
    assert fleet.needed(36_000, 3_600, 1) is None


def test_files_are_packed_by_size_and_number_in_their_order():
    sizes = [TASK_BYTES // 2, TASK_BYTES // 2, 1, 5 * TASK_BYTES, *[0] * (TASK_FILES + 1)]
    files = [Input(str(place), named=False, size=size) for place, size in enumerate(sizes)]
    found = list(packed(files))
    assert [file for task in found for file in task] == files
    assert [len(task) for task in found] == [2, 1, 1, TASK_FILES, 1]
    assert [task.places for task in cluster.packed(files)] == [tuple(int(file.path) for file in task) for task in found]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("captures")
    names = [str(path) for path in captures.write(folder, 300_000, turns=3)]
    return check(names, Budgets(), Options()).result.summary, list(fleet.record([str(folder)], 100_000))


def test_recorded_tasks_hold_every_file_and_request_once(recorded):
    summary, found = recorded
    assert len(found) > 1
    assert sum(task.files for task in found) == summary.files
    assert sum(task.requests for task in found) == summary.turns
    assert all(task.seconds > 0 and task.result > 0 and task.kept > 0 for task in found)


def test_drawn_tasks_are_recorded_ones_and_reach_the_size(recorded):
    found = fleet.drawn(recorded[1], 5_000_000)
    assert set(found) <= set(recorded[1])
    assert 5_000_000 <= sum(task.size for task in found) < 5_000_000 + max(task.size for task in found)
    assert found == fleet.drawn(recorded[1], 5_000_000)


def test_a_huge_file_takes_what_as_many_bytes_take_in_small_ones():
    big = fleet.huge([Task(100, 1, 10, 1.0, 0.1, 20, 30), Task(300, 3, 10, 1.0, 0.3, 20, 30)], 4_000)
    assert big == Task(4_000, 1, 200, 20.0, 4.0, 400, 600)


def test_a_plan_says_workers_hours_and_price(recorded, tmp_path, capsys):
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(b"\n".join(msgspec.json.encode(Task(10**8, 100, 1_000, 1.0, 0.01, 10, 2_000)) for _ in range(3)))
    sizes = ["--terabytes", "0.36", "--huge", "1", "--price", "0.05", "--rate", "100", "--first-byte", "0.01"]
    assert fleet.main(["plan", str(path), *sizes, "--page", "0", "--workers", "10"]) == 0
    said = capsys.readouterr().out
    assert "a worker: 10.0 CPU s/GB, 1.000 ms a request, 10.00 ms a file" in said
    assert "0.36 TB like these: 3,600 tasks, 360,000 files, 3,600,000 requests\n" in said
    assert "work: 1.0 CPU hours of judging, 2.0 hours of reading" in said
    assert "listing: 360 pages" in said
    assert "requests to the store: $0.15" in said  # 360 pages and 360,000 objects
    assert "in 1 h with the listing: 3 workers, $0.30" in said
    assert "| 10 | even | 18.0 min | 18.0 min | 0.0% |" in said
    assert "one file of 1 GB: 20 s on one worker" in said
