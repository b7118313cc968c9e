"""Which of lore's own plug-ins are installed: `make test-core` hides them."""

from lore.plugins import entry_points


def has_plugin(name: str) -> bool:
    """Return whether a plug-in of lore's own publishes anything."""
    groups = ("lore.commands", "lore.formats", "lore.caches", "lore.stores", "lore.reports")
    return any(point.value.startswith(f"lore_plugins.{name}:") for group in groups for point in entry_points(group))
