"""A store of objects keeps what every store keeps: over a service that speaks S3's protocol, and over memory."""

from __future__ import annotations

import json

import pytest

from lore.store.objects import Objects
from lore.store.objects_client import ObjectClient
from lore.store.registry import silent
from lore.testing import StoreContract
from store.harness import HarnessScenarios

obstore = pytest.importorskip("obstore")


class TestObjects(StoreContract, HarnessScenarios):
    @pytest.fixture(autouse=True)
    def _in_a_service(self, objects):
        self.server = objects

    def make(self, place):
        return Objects.open(self.server.url(f"bucket/{place.name}{place.stat().st_ino}"), silent)

    def stamp(self, place, version):
        objects, key = self.server.objects["bucket"], f"{place.name}{place.stat().st_ino}/lore-store.json"
        before = json.loads(objects[key].data)
        objects[key] = objects[key]._replace(data=json.dumps({**before, "version": version}).encode(), e_tag='"new"')
        return before["version"]


class TestObjectsOfAnotherService(StoreContract, HarnessScenarios):
    """Every scenario again, over the store in memory that the client brings, which has other ETags and conditions."""

    @pytest.fixture(autouse=True)
    def _in_memory(self):
        self.places = {}

    def make(self, place):
        store = self.places.setdefault(place, obstore.store.MemoryStore())
        return Objects(ObjectClient(store, f"s3://memory/{place.name}"), silent)
