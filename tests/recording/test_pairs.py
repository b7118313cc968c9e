"""Which files belong together, and in what order: names, links, times, and what copies tell."""

import json
import os

from formats.captures import CAPTURES
from lore.recording.packed import PAIRS, find_pack, order_members

SESSION = json.dumps({"session_id": "s"})


def ask(folder, name, at, *, messages=1, previous="", first="x"):
    turns = [{"role": "user", "content": first}, *({"role": "user", "content": str(n)} for n in range(messages - 1))]
    system = [{"type": "text", "text": f"x-anthropic-billing-header: cc_prompt_id=p; cc_prev_req={previous};"}]
    body = {
        "model": "m",
        "messages": turns,
        "metadata": {"user_id": SESSION},
        **({"system": system} if previous else {}),
    }
    write(folder, f"{name}.request.json", at, body)


def write(folder, name, at, value):
    path = folder / name
    path.write_text(json.dumps(value))
    os.utime(path, (at, at))


def reply(folder, name, at):
    write(folder, f"{name}.response.json", at, {"id": name})


def order(folder):
    return [
        file.name.partition(".")[0] + "+" * file.lacks_request for file in order_members(str(folder), *pairs(folder))
    ]


def pairs(folder):
    return PAIRS, tuple(sorted(os.listdir(folder)))


def test_requests_are_ordered_by_time_then_by_name(tmp_path):
    for name, at in (("c", 1), ("b", 3), ("a", 3)):
        ask(tmp_path, name, at)
    assert order(tmp_path) == ["c", "a", "b"]


def test_links_order_requests_against_file_times(tmp_path):
    ask(tmp_path, "second", 1, messages=2, previous="r1")
    ask(tmp_path, "first", 5)
    reply(tmp_path, "r1", 6)
    assert order(tmp_path) == ["first", "r1", "second"]


def test_copied_files_are_paired_by_links(tmp_path):
    """A checkout gives all files one time, and the names are random: only links tell."""
    for name, n in (("z", 1), ("m", 2), ("a", 3)):
        ask(tmp_path, name, 7, messages=n, previous=f"r{n - 1}" if n > 1 else "")
    for n in (1, 2, 3):
        reply(tmp_path, f"r{n}", 7)
    assert order(tmp_path) == ["z", "r1", "m", "r2", "a", "r3"]


def test_response_with_same_name_is_paired_first(tmp_path):
    ask(tmp_path, "a", 1)
    ask(tmp_path, "b", 2)
    reply(tmp_path, "a", 9)
    assert order(tmp_path) == ["a", "a", "b"]


def test_unlinked_response_answers_preceding_request(tmp_path):
    ask(tmp_path, "a", 1)
    reply(tmp_path, "r", 2)
    ask(tmp_path, "b", 3)
    reply(tmp_path, "q", 4)
    assert order(tmp_path) == ["a", "r", "b", "q"]


def test_link_connects_only_the_same_conversation(tmp_path):
    ask(tmp_path, "main", 1)
    ask(tmp_path, "side", 2, first="title")
    ask(tmp_path, "next", 5, messages=2, previous="r1")
    reply(tmp_path, "r1", 4)
    reply(tmp_path, "r2", 4)
    assert order(tmp_path)[:2] == ["main", "r1"]


def test_links_in_a_ring_end(tmp_path):
    ask(tmp_path, "a", 1, previous="b")
    ask(tmp_path, "b", 2, previous="a")
    reply(tmp_path, "a", 3)
    reply(tmp_path, "b", 3)
    assert len(order(tmp_path)) == 4


def test_file_times_count_unless_files_were_copied(tmp_path):
    for n in range(3):
        ask(tmp_path, f"a{n}", 100 + n * 0.01, messages=n + 1)
    assert {file.at for file in order_members(str(tmp_path), *pairs(tmp_path))} == {None}
    for n in range(3):
        ask(tmp_path, f"a{n}", 100 + n * 9, messages=n + 1)
    assert [file.at for file in order_members(str(tmp_path), *pairs(tmp_path))] == [100, 109, 118]


def test_completions_are_ordered_by_the_time_inside():
    folder = CAPTURES / "completions" / "stable"
    files = order_members(str(folder), *find_pack(str(folder)))
    assert [file.name[-6] for file in files] == ["c", "a", "b"]


def test_unreadable_files_are_listed_all_the_same(tmp_path):
    (tmp_path / "a.request.json").write_bytes(b"\xff{")
    (tmp_path / "b.request.json").symlink_to(tmp_path / "nowhere")
    assert order(tmp_path) == ["b", "a"]
