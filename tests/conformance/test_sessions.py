"""Sessions of published systems give the prompts that they gave before: `playing.py` says how they are kept."""

import pytest

from conformance import playing

SCENARIOS = [(file.stem, scenario) for file in playing.FILES for scenario in playing.scenarios(file)]


@pytest.mark.parametrize(
    "scenario", [pytest.param(scenario, id=f"{name}: {scenario['name']}") for name, scenario in SCENARIOS]
)
def test_session_gives_golden_prompts(scenario):
    for session in scenario["sessions"]:
        assert playing.played(session) == session, scenario.get("why", scenario["name"])
