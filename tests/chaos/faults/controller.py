"""Faults on the controller that watches a job, and errors in the script of the job."""

from __future__ import annotations

import os
import signal

from . import processes


def none(_job):
    """Do nothing, because the script of the job contains the error."""


def end(job, number, then=""):
    """Send a signal to the play that watches the job. If `then` names a signal, send that signal to a rank afterwards."""
    job.wait_for_step()
    os.killpg(job.controller.pid, getattr(signal, number))
    job.controller.wait(timeout=120)
    if then:
        processes.send(job, then)
