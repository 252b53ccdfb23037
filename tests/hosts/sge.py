"""Hosts on which SGE (Grid Engine) runs."""

from __future__ import annotations

import re

from .project import CLUSTER
from .queues import QueueHosts

QUEUE = f"/efs/sge-{CLUSTER}"


class Sge(QueueHosts):
    """Hosts that are nodes of an SGE cluster."""

    role, title = "sge", "SGE"
    # After some seconds without a response, the state of a node is unknown, and SGE starts the node's jobs elsewhere.
    parameters = {"sge_parameters": {"load_report_time": "00:00:04", "max_unheard": "00:00:20", "reschedule_unknown": "00:00:10"}}
    running, waiting, held, ended, ready = "r", "qw", "hqw", "", ""
    hold, on, array, one_gpu = "-h", "-q '*@{}'", "-t 1-{}", "-l gpu=1"
    list_jobs, cancel, cancel_all = "qstat -u '*'", "qdel", "sudo qdel -u '*'"

    def submit(self, script: str, *options: str) -> str:
        command = f"cd /efs && qsub -terse -cwd -j y -N script {' '.join(options)} <<'END'\n#!/bin/bash\n{script}\nEND"
        return self.master.ssh(command).stdout.split()[-1].partition(".")[0]

    def state(self, job: str) -> str:
        shown = self.master.ssh("qstat -u '*'").stdout
        found = re.search(rf"^\s*{job}\s+\S+\s+\S+\s+\S+\s+(\S+)", shown, re.MULTILINE)
        return found[1] if found else ""

    def output(self, job: str) -> str:
        return self.master.ssh(f"cat /efs/script.o{job}").stdout

    def entries(self) -> dict[str, str]:
        shown = self.master.ssh("qstat -r -u root").stdout
        states = re.findall(r"^\s*\d+ \S+ \S+ +root +(\S+)", shown, re.MULTILINE)
        names = re.findall(r"Full jobname: +train(?:ing)?-(\S+)", shown)
        return dict(zip(names, states, strict=True))

    def identity(self, name: str) -> str:
        shown = self.master.ssh("qstat -r -u root").stdout
        return re.findall(rf"^\s*(\d+) [^\n]*\n\s+Full jobname: +train(?:ing)?-{name}\n", shown, re.MULTILINE)[0]

    def first_host(self, name: str) -> str:
        shown = self.master.ssh("qstat -r -u root").stdout
        return re.findall(rf"Full jobname: +train(?:ing)?-{name}\n\s+Master Queue: +trainers@(\S+)", shown)[0]

    def nodes(self) -> dict[str, str]:
        """Return the state of each node as qstat shows it: '' if nothing is wrong."""
        shown = self.master.ssh("qstat -f", check=False).stdout
        rows = [line.split() for line in shown.splitlines() if line.startswith("trainers@")]
        return {row[0].partition("@")[2]: row[5] if len(row) > 5 else "" for row in rows}
