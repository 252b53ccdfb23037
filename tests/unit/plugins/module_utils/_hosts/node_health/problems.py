"""What the tests of health checks say about problems."""

from __future__ import annotations


def severities(problems):
    return [severity for severity, _message in problems]
