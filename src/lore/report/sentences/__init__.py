"""Sentences about verdicts, made of fields. Nothing parses them."""
