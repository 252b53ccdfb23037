"""Hosts on which Slurm runs."""

from __future__ import annotations

import re
import time

from .project import CLUSTER
from .queues import QueueHosts, wait

QUEUE = f"/efs/slurm-{CLUSTER}"
# Seconds after which a node that does not respond is down.
SLURMD_TIMEOUT = 20


class Slurm(QueueHosts):
    """Hosts that are nodes of a Slurm cluster."""

    role, title = "slurm", "Slurm"
    parameters = {"slurm_parameters": {"SlurmdTimeout": SLURMD_TIMEOUT}}
    running, waiting, held, ended, ready = "RUNNING", "PENDING", "PENDING", "COMPLETED", "idle"
    hold, on, array, one_gpu = "--hold", "--nodelist={}", "--array=1-{}", "--gres=gpu:1"
    list_jobs, cancel, cancel_all = "squeue --noheader", "scancel", "scancel --user=$USER; sudo scancel --user=root"

    def submit(self, script: str, *options: str) -> str:
        command = f"cd /efs && sbatch --parsable {' '.join(options)} <<'END'\n#!/bin/bash\n{script}\nEND"
        return self.master.ssh(command).stdout.strip()

    def job(self, job: str, field: str) -> str:
        """Return the value that scontrol shows for a field of a job, or '' if Slurm no longer knows the job."""
        shown = self.master.ssh(f"scontrol --oneliner show job {job}", check=False).stdout
        found = re.search(rf"\b{field}=(\S+)", shown)
        return found[1] if found else ""

    def state(self, job: str) -> str:
        return self.job(job, "JobState")

    def wait_for(self, job: str, state: str) -> None:
        def reached() -> bool:
            found = self.state(job)
            assert found not in {"FAILED", "CANCELLED", "NODE_FAIL"} - {state}, self.output(job)
            return found == state

        wait(reached)

    def output(self, job: str) -> str:
        return self.master.ssh(f"cat /efs/slurm-{job}.out").stdout

    def wait_until_saved(self) -> None:
        """Wait until slurmctld has saved the current state of all jobs, which happens at most 5 s after a change.

        This method submits a job that is on hold, waits until slurmctld's state file contains the job's comment, and cancels the job.
        """
        mark = f"saved-{time.time_ns()}"
        job = self.submit("true", "--hold", f"--comment={mark}")
        wait(lambda: self.master.ssh(f"sudo grep -q {mark} {QUEUE}/job_state", check=False).returncode == 0)
        self.master.ssh(f"scancel {job}")

    def entries(self) -> dict[str, str]:
        shown = self.master.ssh("squeue --noheader --user=root --format='%j %T'").stdout
        return dict(line.split() for line in shown.splitlines())

    def identity(self, name: str) -> str:
        return self.master.ssh(f"squeue --noheader --user=root --name={name} --format=%i").stdout.strip()

    def first_host(self, name: str) -> str:
        return self.job(self.identity(name), "BatchHost")

    def nodes(self) -> dict[str, str]:
        """Return the state of each node as sinfo shows it, or nothing if slurmctld does not respond.

        For a moment, a node whose slurmd has just started counts as not responding (`idle*`).
        """
        shown = self.master.ssh("sinfo --Node --noheader --format='%N %T'", check=False).stdout
        return dict(line.split() for line in shown.splitlines())
