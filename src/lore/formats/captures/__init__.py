"""Recorded requests: what proxies, recorders, gateways and tracers keep of calls."""
