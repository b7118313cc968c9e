"""Answers against the schemas that `lore schema` prints; a schema is checked once (`test_commands`), not each time."""

from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from cli.running import lore


@cache
def validator(name: str) -> Draft202012Validator:
    """Return what checks answers against a schema of a result, by its name."""
    return Draft202012Validator(lore("schema", name).json)


def valid(answer: Any, name: str) -> Any:
    """Check an answer against its schema, and return it; raises jsonschema's ValidationError."""
    validator(name).validate(answer)
    return answer
