"""A folder of logs keeps what every store keeps."""

import json

from lore.store.jsonl import Jsonl
from lore.testing import StoreContract
from store.harness import HarnessScenarios
from store.processes import ProcessScenarios


class TestJsonl(StoreContract, HarnessScenarios, ProcessScenarios):
    def make(self, place):
        return Jsonl.open(self.url(place), print)

    def url(self, place):
        (place / "store").mkdir(exist_ok=True)
        return f"jsonl:{place}/store"

    def stamp(self, place, version):
        path = place / "store" / "lore-store.json"
        before = json.loads(path.read_bytes())
        path.write_text(json.dumps({**before, "version": version}))
        return before["version"]
