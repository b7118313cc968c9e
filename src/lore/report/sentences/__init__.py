"""Sentences: what is known, in words. The only prose about verdicts; nothing reads one back."""
