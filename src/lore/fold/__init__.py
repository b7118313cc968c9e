"""Fold: events to session state, one pure step at a time."""
