"""The parameters of a job, as the module `training_job` gets them."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._job.definition.options import OPTIONS

DEFAULTS = {option.name: option.spec.get("default") for option in OPTIONS}


def parameters(**changes):
    hosts = [
        {"name": f"deeplearning-worker{n}", "address": f"10.0.0.{n}", "number": n, "gpus": [], "interface": "ens5"} for n in (12, 3, 1)
    ]
    own = {"name": "digits", "python": "/p", "script": "/home/me/train.py", "arguments": ["a b"], "time_limit": 9, "stop_timeout": 5}
    own.update(hang_steps=0, hang_minimum=0, environment={"OMP_NUM_THREADS": 4}, secrets={"TOKEN": "t"}, hosts=hosts)
    own.update(instance_id="i-0123456789abcdef0", capacity_end=None, cost_limit={}, attempt=1, key="k", cluster="demo")
    return {**DEFAULTS, **own, **changes}
