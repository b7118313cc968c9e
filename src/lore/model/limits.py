"""Limits of size and work, each with its reason: they bound what a hostile file can cost.

How much a page or a report shows, facts about providers (four breakpoints a request) and the sizes of memos are
constants of their modules.
"""

from __future__ import annotations

# Folding and assembling: each of these is looked at again in later turns.
SESSION_DELTAS = 256  # prompt deltas between two resets
SESSION_LAYERS = 1_000  # layers: one that changes is looked for among all
RESPONSE_ENTRIES = 64  # entries after a response that may belong to it: a few, of a hostile file a million
TOOL_LOOP_ITEMS = 2_000  # items of a tool loop that are counted in each of its turns

# Comparing two requests
ENVELOPE_BYTES = 4_096  # bytes of a message without its blocks: they are read once for each block
CHAINS_COMPARED = 64  # chains with the same beginning: a thousand forks would cost a million comparisons
CHAIN_PROMPT_BYTES = 48 * 1024 * 1024  # bytes of the latest prompts and replies of chains: a hundred of 500 kB
USER_SEGMENTS = 16_384  # segments after the model's last message: each turn searches them for rewrites
DIFFERING_LINES = 64  # places in which two texts differ; each is compared by itself
DIFFERING_TEXT_BYTES = 4 * 1024 * 1024  # bytes of two texts that are compared line by line
DIFFERENCE_CHARACTERS = 24_576  # characters searched for words and headings in all differences of two requests
DIFFERENCE_WINDOW = 131_072  # characters after the first difference that are compared line by line: causes repeat
HEADING_CHARACTERS = 24_000  # characters before it in which its heading is looked for
RESPELLED_SEGMENTS = 48  # segments that are only spelled otherwise and are explained one by one
ANSWER_SEGMENTS = 128  # at either end of a request in which the model's answer is looked for
EXPLAINED_DIFFERENCES = 48  # of one kind of block between two requests; more are counted
WORD_BYTES = 65_536  # before an excerpt, searched for the start of its first word, which may be a credential
CLOCK_SIGNS = 256  # places of a text that look like a clock or an id
VARYING_TEXT = 65_536  # characters searched for clocks and ids: a longer difference is not searched
ENDED_REQUESTS = 64  # requests of a recording that a later one may continue; also the last of each chain
CACHE_ENTRIES = 4_096  # entries of a chain in the model of a cache, the latest, that a request may continue
FORECAST_ENTRIES = 4_000  # entries measured for a turn; more only if a long history changed at its beginning
PREDICTED_TURNS = 8  # of a recording whose missed reads are predicted again, and one more for each
TURNS_PER_PREDICTION = 128  # turns: a recording in which every turn misses costs no more than others
COMBINED_CAUSES = 8  # sets of causes whose savings are tried in combination: each doubles the work

# Reading a record: the only bounds of its size and depth
RECORD_BYTES = 12 * 1024 * 1024  # 6 times the longest record that was seen in a real recording
RECORD_LEVELS = 1_000  # of nesting: parsers refuse deeper values, each at another depth
RECORD_VALUES = 300_000  # each becomes an object of some hundred bytes: 12 MiB of `{},{},` would take gigabytes
ENTRY_BYTES = 24 * 1024 * 1024  # of a document: browsers record videos with requests
BODY_BYTES = 24 * 1024 * 1024  # as text of any script it takes four times as much, for a moment
SAMPLE_BYTES = 40 * 1024 * 1024  # of an evaluation: it is held as pieces, whole and cut
SAMPLE_VALUES = 1_000_000  # its calls repeat their histories
MEMBER_BYTES = 64 * 1024 * 1024  # of a file that is one recording together with others
INFLATION = 200  # times the compressed size: prompts reach 20 and archives of them 100, bombs 1,000
TYPED_LEVELS = 64  # of typed values in telemetry: unwrapping one calls itself
YAML_BYTES = 10 * 1024 * 1024  # of a cassette's interaction: one emoji makes each character cost four
YAML_VALUES = 400_000  # of an interaction, values of aliases counted each time
YAML_TEXT_BYTES = 24 * 1024 * 1024  # of an interaction, text of aliases counted each time
YAML_LEVELS = 200  # of an interaction: YAML's composer calls itself
YAML_ANCHORS = 10_000  # of a cassette: each keeps its value until the end
BEGINNING_BYTES = 4 * 1024 * 1024  # of a document, in which its list has to begin
BEGINNING_TOKENS = 200_000  # texts and runs of brackets before that list: ten times what a recorder writes there
CAPTURED_BYTES = 128 * 1024 * 1024  # of bodies of recorded calls that did not end yet; then the oldest are closed
CAPTURED_CALLS = 4_096  # recorded calls that did not end yet
ZSTD_WINDOW_BYTES = 64 * 1024 * 1024  # that a compressed file may ask to be held

# Reading a file
BRANCH_WALKS = 16  # times that each line of Claude Code's log is read again, on average, to apply compactions
REPLAYED_ENTRIES = 100_000  # entries of pi that come again on another branch: a session has some hundred
OPEN_CALLS = 512  # calls of a chat without a result: each result is looked for among them

# Other files
DATABASE_BYTES = 1024 * 1024 * 1024  # of a database of an agent that is copied, and of all copies that are kept
COLUMN_BYTES = 64 * 1024 * 1024  # of one of its values: no reader keeps a longer record
QUERY_STEPS = 20_000_000  # of SQLite's virtual machine that any query may take
QUERY_STEPS_PER_BYTE = 10  # more for each byte of the database: an honest one needs less than one
DIRECTORY_BYTES = 4 * 1024 * 1024  # of an archive's directory: some 50,000 members; it is held while they are read
SMALL_FILE_BYTES = 16 * 1024 * 1024  # of a file that is read at once: a message, a list of folders
SETTINGS_BYTES = 1024 * 1024  # of a settings file: a device has no end
RULES_BYTES = 4 * 1024 * 1024  # of a file of rules: the packaged ones together hold 40 KB
APPROVAL_BYTES = 64 * 1024  # of an approval of settings: no path is longer

# Requests that wait for what belongs to them
RESPONSE_BYTES = 48 * 1024 * 1024  # of responses that later requests may continue
HELD_BYTES = 8 * 1024 * 1024  # of requests that are read ahead
HELD_REQUESTS = 1_024  # that are read ahead
LINTED_CONVERSATIONS = 64  # of a file of bodies whose latest request is held

# Programs, servers and templates that a user names
COMMAND_BYTES = 1024 * 1024  # of a command's output; a summary or a context has thousands
COMPLAINT_BYTES = 64 * 1024  # of a command's standard error: its end, where the reason is
COMMANDS_AT_ONCE = 16  # each is a process of the user's
ANSWER_BYTES = 4 * 1024 * 1024  # of a server's answer; a summary has thousands
RENDERED_CHARACTERS = 1_000_000  # of what a chat template writes
RENDERED_PER_BYTE = 16  # characters more for each byte of the prompt
