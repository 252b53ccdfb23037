"""The parameters of a job, as the module `training_job` gets them."""

from __future__ import annotations


def parameters(**changes):
    hosts = [
        {"name": f"deeplearning-worker{n}", "address": f"10.0.0.{n}", "number": n, "gpus": [], "interface": "ens5"} for n in (12, 3, 1)
    ]
    defaults = {"name": "digits", "python": "/p", "script": "/home/me/train.py", "source": None, "repository": None, "arguments": ["a b"]}
    defaults.update(
        resume=None,
        instance_id="i-0123456789abcdef0",
        capacity_end=None,
        cost_limit={},
        attempt=1,
        launcher="torchrun",
        launcher_options={},
        command=[],
        environment_by_task={},
        sync_directory=None,
        key="k",
        sandbox=True,
        health_check=True,
        reboot=False,
        queue=None,
        host_count=0,
        metrics_directory=None,
        cluster="demo",
    )
    limits = {"processes_per_host": 0, "time_limit": 9, "stop_timeout": 5, "heartbeat_timeout": 60, "hang_timeout": 0, "hang_steps": 0}
    limits["hang_minimum"], limits["health_interval"] = 0, 300
    limits.update(restarts=3, min_hosts=0, spares=0, stop_exit_codes=[], restart_exit_codes=[])
    return {**defaults, **limits, "hosts": hosts, "environment": {"OMP_NUM_THREADS": 4}, "secrets": {"TOKEN": "t"}, **changes}
