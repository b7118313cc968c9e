"""Hide lore's plug-ins from every Python process that has this folder in PYTHONPATH: `make test-core`."""

import sys


class NoPlugins:
    """An importer that refuses `lore_plugins`, as if it were not installed."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == "lore_plugins":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, NoPlugins)
