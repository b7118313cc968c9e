"""Write the module reference as pages of HTML, and print its faults: `build.py FOLDER`.

In: the docstrings of the public interface: `lore` and its public modules, `lore.testing`, the `base.py` of each room,
the pytest plugin. Out: pages, and exit code 1 with a line for each name in a
docstring that does not exist (`lore.…`, `file.py`). Renderer: pdoc.
"""

import importlib
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

SOURCE = Path(__file__).parents[2] / "src" / "lore"
ROOMS = tuple(f"lore.{path.parent.name}.base" for path in sorted(SOURCE.glob("*/base.py")))
PLUGIN = ("lore.pytest_plugin", "lore.pytest_plugin.hooks")
NAME = re.compile(r"`(lore(?:\.\w+)+)(?:\(.*?\))?`")
FILE = re.compile(r"`([\w/]+\.(?:py|md|toml))`")
USERS_OWN = ("pyproject.toml", "lore.toml", "conftest.py")  # files that docstrings name and users write
GROUPS = {f"lore.{kind}" for kind in ("formats", "dialects", "caches", "stores", "reports", "rules")}  # of entry points


def public() -> list[str]:
    """Return the modules of the reference, with their lazy names loaded for the renderer."""
    lore = importlib.import_module("lore")
    offered = (getattr(lore, name) for name in getattr(lore, "__all__", ()))
    own = [value.__name__ for value in offered if isinstance(value, ModuleType)]
    names = ["lore", *own, "lore.testing", *ROOMS, *PLUGIN]
    bases: dict[str, None] = {}
    for module in map(importlib.import_module, names):
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            setattr(module, name, getattr(value, "__wrapped__", value) if name == "lore_recorder" else value)
            bases.update((base.__module__, None) for base in getattr(value, "__mro__", ())[1:])
    inherited = (name for name in bases if name.startswith("lore.") and name not in names)
    return [*names, *inherited]  # inherited members are documented in their own class


def write(folder: Path) -> list[str]:
    """Write the pages; return the modules that they are of."""
    import pdoc
    import pdoc.render

    names = public()
    for value in [value for name in names for value in vars(sys.modules[name]).values()]:
        for field in getattr(value, "_fields", ()) if isinstance(value, type) and issubclass(value, tuple) else ():
            getattr(value, field).__doc__ = value.__new__.__doc__ = ""  # "Alias for field number 0": Python's own words
    pdoc.render.configure(docformat="markdown", show_source=False, footer_text="lore")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # what msgspec and NamedTuple write has no module in which its annotations could be looked up: they stay text
        warnings.filterwarnings("ignore", "Error parsing type annotation")
        packages = [name for name in names if hasattr(sys.modules[name], "__path__")]
        alone = [spec for name in packages for spec in (name, rf"!{re.escape(name)}\.")]  # not all that is in it
        pdoc.pdoc(*alone, *(name for name in names if name not in packages), output_directory=folder)
    return names


def broken_names(docstrings: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the names in docstrings that do not exist: modules and their members, files of the source."""
    files = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.*")}
    for where, text in docstrings:
        names = [name for name in NAME.findall(text) if name not in GROUPS and name not in USERS_OWN]
        yield from (f"{where}: `{name}` does not exist" for name in names if not _exists(name))
        for name in FILE.findall(text):
            if name not in USERS_OWN and not any(f"/{file}".endswith(f"/{name}") for file in files):
                yield f"{where}: missing file `{name}`"


def _exists(name: str) -> bool:
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            value: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            value = getattr(value, part, None)
        return value is not None
    return False


def docstrings(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the docstrings of modules, of their definitions, and of the methods of their classes."""
    for name in names:
        module = importlib.import_module(name)
        yield name, module.__doc__ or ""
        for key, value in vars(module).items():
            if getattr(value, "__module__", "").startswith("lore") and isinstance(getattr(value, "__doc__", None), str):
                yield f"{name}.{key}", value.__doc__
                members = vars(value).items() if isinstance(value, type) else ()
                yield from (
                    (f"{name}.{key}.{part}", member.__doc__) for part, member in members if _is_documented(member)
                )


def _is_documented(member: object) -> bool:
    return getattr(member, "__module__", "").startswith("lore") and isinstance(member.__doc__, str)


def main(folder: str) -> int:
    """Write and check the pages; print their faults."""
    names = write(Path(folder))
    found = [*broken_names(docstrings(names))]
    print("\n".join(found) or f"{len(names)} modules in {folder}/lore.html")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
