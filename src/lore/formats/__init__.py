"""Readers: bytes of a recording to events or exchanges, and problems. No reader opens a file."""
