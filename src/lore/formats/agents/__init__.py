"""Logs of other agents: one or two files each."""
