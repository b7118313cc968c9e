"""Every sample of a plug-in's format is recognised as that format among all formats."""

import pytest

from helpers.recognising import recognise
from lore.testing import ReaderContract
from plugins.formats import (
    test_codex_exec,
    test_flue,
    test_kimi_cli,
    test_mini_swe_agent,
    test_openfang,
    test_openhands,
    test_swe_agent,
)

SUITES = (
    test_codex_exec.TestContract, test_flue.TestContract, test_kimi_cli.TestFiles, test_kimi_cli.TestFolders,
    test_mini_swe_agent.TestContract, test_openfang.TestContract, test_openhands.TestContract,
    test_swe_agent.TestContract,
)  # fmt: skip


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.reader.name)
def test_registry_recognises_every_sample(suite: type[ReaderContract]) -> None:
    assert [recognise(sample) for sample in suite.samples] == [suite.reader] * len(suite.samples)
