"""The plug-ins of lore: parts that few users need, in the same distribution as `lore`.

Each package here registers by entry points in `pyproject.toml`, and imports only names in `__all__` of a package of
`lore`. No plug-in imports another.
"""
