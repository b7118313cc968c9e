"""The page "Add a format": its example reads a log with public names alone."""

import re
from pathlib import Path
from typing import Any

from lore import formats
from lore.model.codes import Problem
from lore.model.events import Append, Observed, PatchToolCall, SessionStarted, TurnCompleted, TurnStarted
from lore.testing import ReaderContract, everything
from model.making import dumps

PAGE = Path(str(formats.__file__)).with_name("README.md").read_text("utf-8")
(READER,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
names: dict[str, Any] = {"__name__": "example"}
exec(compile(READER, "README.md", "exec", dont_inherit=True), names)  # noqa: S102 - the own code of the page

LOG = b"".join(
    dumps({"time": 1_785_574_800 + number, **record}) + b"\n"
    for number, record in enumerate((
        {"type": "user", "exampleVersion": 1, "id": "a", "text": "hello"},
        {"type": "assistant", "id": "b", "text": "hi", "usage": {"input_tokens": 9, "output_tokens": 2}},
        {"type": "result", "id": "c", "text": "done"},
        {"type": "error"},
        {"type": "other"},
    ))
)  # fmt: skip


class TestContract(ReaderContract):
    reader = names["Example"]
    samples = (LOG,)


def test_example_of_the_page_reads_a_log():
    values = [read.value for read in everything(names["Example"](), LOG)]
    kinds = [SessionStarted, Append, TurnStarted, Append, TurnCompleted, PatchToolCall, Observed, Problem]
    assert [type(value) for value in values if type(value) in kinds] == kinds
