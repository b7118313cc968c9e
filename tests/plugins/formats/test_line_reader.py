"""A line without a record is the same problem in every format."""

import pytest

from formats.test_line_reader import LADDER
from lore.formats.lines import LineCutter
from lore.model.codes import Problem
from lore.testing import everything
from lore_plugins.formats.flue import Flue
from lore_plugins.formats.kimi_cli import KimiCli
from lore_plugins.formats.openfang import OpenFang


@pytest.mark.parametrize("reader", [Flue, KimiCli, OpenFang])
@pytest.mark.parametrize(("data", "code", "line"), LADDER)
def test_line_without_a_record_is_the_same_problem(reader, data, code, line, monkeypatch):
    monkeypatch.setattr(LineCutter, "limit", 48 if code == "LORE217" else 4096)
    problems = {(read.value.code, read.line) for read in everything(reader(), data) if isinstance(read.value, Problem)}
    assert (code, line) in problems
