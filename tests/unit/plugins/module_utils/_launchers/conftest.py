"""Descriptions of hosts and programs, as input for tests of launchers."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import Host, Program


def make_hosts(count, gpus):
    return [Host(f"deeplearning-worker{n}", f"10.0.0.{n}", n, range(gpus), "ens5") for n in range(1, count + 1)]


def program(**changes):
    return Program(**{"job": "digits", "python": "/opt/pytorch/bin/python", "script": "/efs/jobs/digits/code/train.py", **changes})
