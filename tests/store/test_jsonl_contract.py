"""A folder of logs keeps what every store keeps."""

import json

from lore.store.jsonl import Jsonl
from lore.testing import StoreContract
from store.harness import HarnessScenarios


class TestJsonl(StoreContract, HarnessScenarios):
    def make(self, place):
        folder = place / "store"
        folder.mkdir(exist_ok=True)
        return Jsonl.open(f"jsonl:{folder}", print)

    def stamp(self, place, version):
        path = place / "store" / "lore-store.json"
        before = json.loads(path.read_bytes())
        path.write_text(json.dumps({**before, "version": version}))
        return before["version"]
