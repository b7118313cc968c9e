"""Logs and metrics of engines, which measure their caches."""
