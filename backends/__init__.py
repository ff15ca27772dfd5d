"""Backends: each compiles kernels into an executable."""

from __future__ import annotations
