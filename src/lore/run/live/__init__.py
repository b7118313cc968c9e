"""The session that runs: recorded, judged as it grows, on a line or a screen."""
