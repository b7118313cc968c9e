"""`--state` in a bucket: the answer is that without, whatever happens to the bucket and to what lies in it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from cli.running import lore, put, session
from lore.run.checking import judging, state

pytest.importorskip("obstore")
KEPT = "s3://b/kept"
LOGS = {f"p/{name}.jsonl": session(session_id=name) for name in ("a", "b", "c")}


@pytest.fixture
def judged(monkeypatch):
    """The files that are judged, not taken from a state."""
    found = []
    judge = judging.judge
    monkeypatch.setattr(judging, "judge", lambda file, *rest: found.append(file.path) or judge(file, *rest))
    return found


@pytest.fixture
def logs(bucket):
    """A bucket with recordings."""
    for key, data in LOGS.items():
        bucket.keep(f"b/{key}", data)
    return bucket


def check(judged, *extra, logs="s3://b/p/", kept=KEPT):
    """Check with a state, and hold the answer against one without; return what was judged and said."""
    args = ("check", logs, "--json", *extra)
    expected = lore(*args)
    judged.clear()
    answer = lore(*args, "--state", kept)
    assert (answer.code, answer.out) == (expected.code, expected.out)
    return [path.rpartition("/")[2] for path in judged], answer.err


def segments(bucket):
    return {key: kept for key, kept in bucket.objects["b"].items() if key.endswith(".state")}


def denied(*methods):
    """Deny these requests to the folder of the state; "LIST" is a GET of no key."""

    def fail(request):
        method = "LIST" if request.method == "GET" and not request.key else request.method
        return "denied" if method in methods and not request.key.startswith("p/") else None

    return fail


@pytest.mark.parametrize("client", ["obstore", "fsspec"])
def test_another_service_of_s3_keeps_results_alike(moto, judged, monkeypatch, client):
    pytest.importorskip("obstore" if client == "obstore" else "s3fs")
    monkeypatch.setenv("LORE_REMOTE", client)
    monkeypatch.setattr(state, "BATCH", 1)
    monkeypatch.setattr(state, "SEGMENTS", 2)
    name = f"state-{client}"
    moto.create_bucket(Bucket=name)
    for key, data in LOGS.items():
        moto.put_object(Bucket=name, Key=key, Body=data)
    place = {"logs": f"s3://{name}/p/", "kept": f"s3://{name}/kept/deep"}
    assert check(judged, **place) == (["a.jsonl", "b.jsonl", "c.jsonl"], "")
    assert check(judged, **place) == ([], "")
    keys = [found["Key"] for found in moto.list_objects_v2(Bucket=name, Prefix="kept/")["Contents"]]
    assert len(keys) == 1, "segments are merged, and the merged ones deleted"
    moto.put_object(Bucket=name, Key="p/b.jsonl", Body=session(session_id="other"))
    assert check(judged, **place) == (["b.jsonl"], "")
    whole = moto.get_object(Bucket=name, Key=keys[0])["Body"].read()
    moto.put_object(Bucket=name, Key=keys[0], Body=whole[:20] + bytes([whole[20] ^ 1]) + whole[21:])
    assert check(judged, **place) == (["a.jsonl", "c.jsonl"], "")
    assert check(judged, **place) == ([], "")


@pytest.mark.parametrize("scheme", ["gs", "az"])
def test_other_services_keep_results_alike(logs, judged, monkeypatch, scheme):
    """Google's and Azure's, as far as their protocols are played here."""
    logs.signed = False
    monkeypatch.setenv(
        "GOOGLE_SERVICE_ACCOUNT_KEY",
        f'{{"gcs_base_url": "{logs.endpoint}", "disable_oauth": true, "client_email": "", "private_key": "",'
        ' "private_key_id": ""}',
    )
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", logs.endpoint)
    place = {"logs": f"{scheme}://b/p/", "kept": f"{scheme}://b/kept"}
    assert len(check(judged, **place)[0]) == 3
    assert check(judged, **place) == ([], "")


def test_recordings_here_are_known_by_their_content_on_another_machine(bucket, judged, monkeypatch):
    for key, data in LOGS.items():
        put(key, data)
    monkeypatch.setattr(state, "SETTLED_SECONDS", -1.0)
    assert len(check(judged, logs="p")[0]) == 3
    assert check(judged, logs="p") == ([], "")
    for key, data in LOGS.items():
        put(f"{key}.new", data)
        (state.os.unlink(key), state.os.rename(f"{key}.new", key))
    with bucket.counted() as requests:
        monkeypatch.setattr("lore.run.checking.verdicts.judge_file", None)
        assert lore("check", "p", "--state", KEPT, "--jobs", "1").code == 0
    assert [method for method, _ in requests][-1] == "PUT"


def test_a_listing_and_each_new_object_once_is_all_it_costs(logs, judged):
    """Each was looked at twice more, one after the other: 100,000 objects made 300,000 requests."""
    with logs.counted() as requests:
        assert lore("check", "s3://b/p/", "--state", KEPT).code == 0
    assert sorted(key for _, key in requests if key.startswith("p/") and key != "p/lore-store.json") == sorted(LOGS)
    with logs.counted() as requests:
        assert lore("check", "s3://b/p/", "--state", KEPT).code == 0
    assert not [key for _, key in requests if key.endswith(".jsonl")]


def test_two_runs_at_once_lose_nothing(logs, judged, monkeypatch):
    monkeypatch.setattr(state, "BATCH", 1)
    monkeypatch.setattr(state, "SEGMENTS", 1)
    met, close = threading.Barrier(2, timeout=30), state.CheckState.close
    monkeypatch.setattr(state.CheckState, "close", lambda self: met.wait() and None or close(self))
    from lore.judge.policy import Budgets
    from lore.recording.inputs import inputs
    from lore.recording.opening import Options
    from lore.run.checking.verdicts import CheckConfig

    def run(_):
        means = judging.Means(state=state.CheckState(KEPT, said.append))
        results = judging.judged(inputs(["s3://b/p/"]), CheckConfig(Options(), Budgets()), means)
        return [(result.key, result.summary, result.findings) for result in results]  # one may take what the other kept

    said = []
    with ThreadPoolExecutor(2) as pool:
        left, right = pool.map(run, range(2))
    assert left == right
    assert said == []
    monkeypatch.setattr(state.CheckState, "close", close)
    assert check(judged) == ([], "")


@pytest.mark.parametrize(
    ("methods", "right"),
    [(("PUT",), "s3:PutObject"), (("DELETE", "POST"), "s3:DeleteObject"), (("GET",), "s3:GetObject")],
)
def test_a_missing_permission_is_said_once_and_changes_no_answer(logs, judged, monkeypatch, methods, right):
    monkeypatch.setattr(state, "SEGMENTS", 0)
    check(judged)
    logs.keep("b/p/new.jsonl", session(session_id="new"))
    expected = lore("check", "s3://b/p/", "--json")
    logs.fail = denied(*methods, *(("HEAD",) if "GET" in methods else ()))
    ran = lore("check", "s3://b/p/", "--json", "--state", KEPT)
    assert (ran.code, ran.out) == (expected.code, expected.out)
    assert ran.err.count(right) == ran.err.count("\n") == 1
    assert "a secret" not in ran.err


def test_a_place_that_may_not_be_listed_or_is_not_there_ends_the_run(logs, judged):
    logs.fail = denied("LIST")
    ran = lore("check", "s3://b/p/a.jsonl", "--state", KEPT)
    assert ran.code == 2
    assert "s3:ListBucket" in ran.err
    logs.fail = lambda request: None
    ran = lore("check", "s3://b/p/", "--state", "s3://other/kept")
    assert ran.code == 2
    assert "there is no bucket other" in ran.err


@pytest.mark.parametrize("failure", ["refused", "error", "torn"])
def test_a_service_that_is_throttled_for_a_while_is_asked_again(logs, judged, failure):
    """A torn answer is one to a read: the service has what it answers to a write."""
    failures = iter([failure] * 3)
    logs.fail = lambda request: next(failures, None) if request.key.endswith(".state") else None
    check(judged)
    assert check(judged) == ([], "")
    assert next(failures, None) is None


def test_a_service_that_is_throttled_for_ever_is_said_and_changes_no_answer(logs, judged):
    check(judged)
    logs.fail = lambda request: "refused" if request.key.endswith(".state") else None
    found, said = check(judged)
    assert len(found) == 3
    assert said.count("results of earlier runs could not be read") == said.count("\n") == 1
    logs.fail = lambda request: None
    assert check(judged) == ([], "")


def test_an_object_that_changes_while_it_is_judged_is_not_kept(logs, judged, monkeypatch):
    judge = judging.verdicts.judge_file

    def judge_and_write(file, *rest):
        result = judge(file, *rest)
        if file.path.endswith("/b.jsonl"):
            logs.keep("b/p/b.jsonl", session(session_id="later"))
        return result

    with monkeypatch.context() as patch:
        patch.setattr(judging.verdicts, "judge_file", judge_and_write)
        lore("check", "s3://b/p/", "--state", KEPT)
    assert check(judged)[0] == ["b.jsonl"]


@pytest.mark.parametrize("client", ["obstore", "fsspec"])
def test_an_object_that_changes_between_its_listing_and_its_reading_is_not_kept(logs, judged, monkeypatch, client):
    """Its result is that of other bytes than the list spoke of, which may come back."""
    if client == "fsspec":
        pytest.importorskip("s3fs")
    monkeypatch.setenv("LORE_REMOTE", client)
    listed = logs.objects["b"]["p/b.jsonl"].data

    def change(request):
        if request == ("GET", "p/b.jsonl", request.headers):
            logs.keep("b/p/b.jsonl", session(session_id="later"))

    logs.fail = change
    assert lore("check", "s3://b/p/", "--state", KEPT).code == (0 if client == "obstore" else 3)
    logs.fail = lambda request: None
    logs.keep("b/p/b.jsonl", listed)
    assert check(judged)[0] == ["b.jsonl"]


def test_a_state_among_the_recordings_is_none_of_them(logs, judged):
    once = lore("check", "s3://b/p/", "--json")
    for place in ("s3://b/p/kept", "S3://b/p/x/../kept/", "s3://b/p"):
        for _ in range(2):
            assert lore("check", "s3://b/p/", "--json", "--state", place).out == once.out
    assert len(segments(logs)) == 2


@pytest.mark.parametrize("place", ["https://example.com/kept", "sqlite://kept", "s3://b/kept?endpoint=http://h"])
def test_a_place_that_keeps_nothing_is_refused(place):
    put("s.jsonl", session())
    ran = lore("check", "s.jsonl", "--state", place)
    assert ran.code == 2
    assert "results are kept in a folder or a bucket" in ran.err
