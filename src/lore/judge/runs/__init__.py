"""Rules about whole chains of a recording: faults that no comparison of two turns can show."""
