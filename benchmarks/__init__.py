"""Timed workloads, run as models of the language through the public API (docs/benchmarks.md)."""
