"""lore's own plug-ins: parts that few users need, in the same distribution as `lore`.

Each package here registers by entry points in `pyproject.toml`, and imports only names that a room of `lore` exports in
its `__all__`. No plug-in imports another.
"""
