"""lore: an offline judge of prompt caches and an assembler of cache-stable prompts.

The package is imported lazily, room by room: `import lore` costs nothing but this file.
"""

__version__ = "0.1.0"
