"""Law 4. Cold equals live: reading a part and continuing with the same objects is reading all, for every cut."""

from hypothesis import given
from hypothesis import strategies as st

from helpers.fed import fed_in_two, pieces
from helpers.recognising import recognise
from helpers.states import dump_state, step
from helpers.strategies import body_files, claude_logs, lore_logs, read_all
from lore.formats.captures.bodies import Bodies
from lore.formats.claude.reader import ClaudeCode
from lore.formats.lore_log import LoreLog
from lore.model.codes import Problem
from lore.model.state import FoldedSession
from lore.model.turn import Exchange

cuts = st.lists(st.floats(0, 1), min_size=1, max_size=6)


def _fold(state: FoldedSession, reads) -> tuple[FoldedSession, list[Problem]]:
    problems: list[Problem] = []
    for read in reads:
        if not isinstance(read.value, Problem | Exchange):
            state, new_problems = step(state, read.value)
            problems.extend(new_problems)
    return state, problems


class _Warm:
    """A live run: all at once."""

    def __init__(self, reader, data: bytes) -> None:
        self.reader, self.data = reader, data
        self.reads = read_all(reader(), data)
        self.state, self.problems = _fold(FoldedSession(format=reader.name), self.reads)
        self.saved = dump_state(self.state)

    def assert_same_when_cut(self, at: int) -> None:
        """Read to the cut, then the rest; compare reads, folds and problems."""
        reads, remaining_reads = fed_in_two(self.reader(), self.data, at)
        state, problems = _fold(FoldedSession(format=self.reader.name), reads)
        state, more = _fold(state, remaining_reads)
        assert [*reads, *remaining_reads] == self.reads, f"cut at byte {at}: other reads"
        assert dump_state(state) == self.saved, f"cut at byte {at}: another state"
        assert [*problems, *more] == self.problems, f"cut at byte {at}: other problems"


def _at(data: bytes, share: float) -> int:
    return round(share * len(data))


@given(lore_logs(), cuts)
def test_a_lore_log_may_be_cut_anywhere(log, shares):
    warm = _Warm(LoreLog, log.data)
    for share in shares:
        warm.assert_same_when_cut(_at(log.data, share))


@given(claude_logs(), cuts)
def test_a_claude_code_log_may_be_cut_anywhere(data, shares):
    warm = _Warm(ClaudeCode, data)
    for share in shares:
        warm.assert_same_when_cut(_at(data, share))


@given(body_files(), cuts)
def test_a_file_of_bodies_may_be_cut_anywhere(data, shares):
    for share in shares:
        at = _at(data, share)
        assert list(Bodies().read([data[:at], data[at:]])) == read_all(Bodies(), data)


RICH = (
    b'\xef\xbb\xbf{"kind":"session_started","session_id":"s","model":"claude-x","system":"\\ud83d"}\n'
    b'{"kind":"append","item":{"type":"user_message","uuid":"u1","text":"\xf0\x9f\x91\xa9 \xe2\x80\xa8"}}\r\n'
    b'{"kind":"turnStarted","turn":1}\n\n'
    b'{"kind":"append","item":{"type":"tool_call","uuid":"t1","callId":"c1","name":"n","input":{"a":1.0}}}\n'
    b'{"kind":"patch_tool_call","call_id":"c1","status":"completed","output":"\\u00e9"}\n'
    b'{"kind":"mystery","x":[18446744073709551616]}\n'
    b'{"kind":"compact_applied","uuid":"d1","trigger":"auto","preserved_uuids":["t1","gone"],"summary":"so"}\n'
    b'{"kind":"cache_reset","reason":"a"}{"kind":"cache_reset","reason":"b"}\n'
    b'{"kind":"turn_comp'
)


def test_log_may_be_cut_at_every_byte():
    warm = _Warm(LoreLog, RICH)
    for at in range(len(RICH) + 1):
        warm.assert_same_when_cut(at)


@given(lore_logs(max_size=6), st.integers(1, 40))
def test_bytes_may_arrive_in_pieces_of_any_size(log, size):
    reader = LoreLog()
    assert list(reader.read(pieces(log.data, size))) == read_all(LoreLog(), log.data)


def test_pretty_body_reads_the_same_in_pieces():
    data = b'{"model":"claude-x",\n\n"messages":[],\n\n\n"system":"s"}\n'
    for at in range(len(data) + 1):
        assert list(Bodies().read([data[:at], data[at:]])) == read_all(Bodies(), data)


def test_a_recording_may_be_cut_anywhere(recording):
    data = recording.read_bytes()
    reader = recognise(data[: 1 << 18])
    warm = _Warm(reader, data)
    first = data.find(b"\n")
    middle = data.find(b"\n", len(data) // 2)
    for at in (first + 1, len(data) // 3, middle + 1, len(data)):
        warm.assert_same_when_cut(at)
