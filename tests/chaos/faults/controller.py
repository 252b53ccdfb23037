"""Faults of the controller, which starts a job and watches it, and of the script that it starts."""

from __future__ import annotations

import os
import signal
import time

from . import processes


def none(_job):
    """Do nothing: the job has an error of its own."""


def end(job, number, then=""):
    """End the play that watches the job, and then perhaps a rank."""
    job.wait_for_step()
    job.injected = time.time()
    os.killpg(job.controller.pid, getattr(signal, number))
    job.controller.wait(timeout=120)
    if then:
        job.injected = None
        processes.send(job, then)
