"""What SARIF 2.1.0 says of the objects that lore writes: which members they have, and of what kind.

Written from the standard (OASIS SARIF 2.1.0, sections 3.13 to 3.52) and compared, member by member, with the JSON
Schema that it publishes (errata 01). Stricter than a general validator: a
member that is not listed here is one that lore does not mean to write.
"""

import re
from urllib.parse import urlsplit

TEXT, WHOLE, URI = "text", "whole", "uri"
OBJECTS = {
    "log": ({"$schema": URI, "version": TEXT, "runs": ["run"]}, {"version", "runs"}),
    "run": (
        {
            "tool": "tool", "originalUriBaseIds": {"": "artifactLocation"}, "columnKind": TEXT, "results": ["result"],
            "properties": dict,
        },
        {"tool"},
    ),
    "tool": ({"driver": "driver"}, {"driver"}),
    "driver": ({"name": TEXT, "semanticVersion": TEXT, "rules": ["rule"]}, {"name"}),
    "rule": (
        {
            "id": TEXT, "name": TEXT, "shortDescription": "multi", "fullDescription": "multi", "help": "multi",
            "defaultConfiguration": "configuration", "properties": dict,
        },
        {"id"},
    ),
    "multi": ({"text": TEXT, "markdown": TEXT}, {"text"}),
    "configuration": ({"level": TEXT}, set()),
    "result": (
        {
            "ruleId": TEXT, "ruleIndex": WHOLE, "level": TEXT, "message": "message", "locations": ["location"],
            "partialFingerprints": {"": TEXT}, "properties": dict,
        },
        {"message"},
    ),
    "message": ({"text": TEXT}, {"text"}),
    "location": ({"physicalLocation": "physical", "logicalLocations": ["logical"]}, set()),
    "logical": ({"kind": TEXT, "fullyQualifiedName": TEXT}, set()),
    "physical": ({"artifactLocation": "artifactLocation", "region": "region"}, {"artifactLocation"}),
    "artifactLocation": ({"uri": URI, "uriBaseId": TEXT, "description": "message"}, set()),
    "region": ({"startLine": WHOLE}, {"startLine"}),
}  # fmt: skip
LEVELS = {"none", "note", "warning", "error"}
_URI = re.compile(r"(?:[A-Za-z0-9._~:/?#@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+")


def check(value, kind="log", at="$"):
    """Raise AssertionError where a value is not what the standard says."""
    if kind == TEXT:
        assert isinstance(value, str), at
    elif kind == WHOLE:
        assert type(value) is int, at
        assert value >= 0, at
    elif kind == URI:
        assert _URI.fullmatch(value), (at, value)
        urlsplit(value)
    elif kind is dict:
        assert isinstance(value, dict), at
    elif isinstance(kind, list):
        assert isinstance(value, list), at
        for place, one in enumerate(value):
            check(one, kind[0], f"{at}[{place}]")
    elif isinstance(kind, dict):
        for name, one in value.items():
            check(one, kind[""], f"{at}.{name}")
    else:
        members, needed = OBJECTS[kind]
        assert value.keys() <= members.keys(), (at, value.keys() - members.keys())
        assert needed <= value.keys(), (at, needed - value.keys())
        for name, one in value.items():
            check(one, members[name], f"{at}.{name}")
    if at == "$":
        _whole(value)


def _whole(log):
    assert log["version"] == "2.1.0"
    for run in log["runs"]:
        rules = run["tool"]["driver"]["rules"]
        ids = [rule["id"] for rule in rules]
        assert len(set(ids)) == len(ids)
        assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
        assert all(len(set(rule["properties"]["tags"])) == len(rule["properties"]["tags"]) for rule in rules)
        assert all((rule["properties"]["tags"][1] == "damage") is (rule["id"][:5] == "LORE2") for rule in rules)
        assert all(rule["defaultConfiguration"]["level"] in LEVELS for rule in rules)
        assert re.fullmatch(r"\d+\.\d+\.\d+(?:-[\w.]+)?(?:\+[\w.]+)?", run["tool"]["driver"]["semanticVersion"])
        for result in run["results"]:
            assert result["level"] in LEVELS
            assert ids[result["ruleIndex"]] == result["ruleId"]
            for location in result["locations"]:
                _place(location.get("physicalLocation"), run["originalUriBaseIds"])


def _place(physical, bases):
    if physical is None:
        return
    artifact = physical["artifactLocation"]
    absolute = bool(urlsplit(artifact["uri"]).scheme)
    assert not (absolute and "uriBaseId" in artifact)
    assert "uriBaseId" not in artifact or artifact["uriBaseId"] in bases
    assert "region" not in physical or physical["region"]["startLine"] >= 1
