"""Tokens: counting with o200k_base, shipped in the package so that it works without a network."""
