# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tests of the conditions under which train.yml removes nodes after a failed job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

PLAYBOOKS = Path(__file__).resolve().parents[3] / "playbooks"
EXPORT = "s3://results/jobs"


@pytest.mark.parametrize(
    ("export", "facts", "nodes_go"),
    [
        ("", {"__training_job_started": {}}, True),
        (EXPORT, {"__training_job_started": {}}, False),
        (EXPORT, {"__training_job_started": {}, "__training_job_exported": {"finished": False}}, False),
        (EXPORT, {"__training_job_started": {}, "__training_job_exported": {"finished": True}}, True),
        (EXPORT, {}, True),
    ],
    ids=["no export", "failed before the export", "not exported", "exported", "not started"],
)
def test_nodes_of_a_failed_job_stay_until_it_is_exported(tmp_path, export, facts, nodes_go):
    (play,) = [play for play in yaml.safe_load((PLAYBOOKS / "train.yml").read_text()) if "then_always" in play.get("vars", {})]
    fails = [{"ansible.builtin.set_fact": facts}] * bool(facts) + [{"ansible.builtin.fail": {"msg": "no luck"}}]
    for task in play["tasks"]:
        for job in [task, *task.get("block", [])]:
            if job.pop("ansible.builtin.include_tasks", None):
                job["block"] = fails
    shown = [{"ansible.builtin.debug": {"msg": "nodes may go"}, "when": "hostvars['localhost'].job_is_over | default(false)"}]
    play |= {"hosts": "localhost", "vars_files": [], "tasks": play["tasks"] + shown}
    play["vars"] |= {
        "training_job_then": "destroy",
        "training_job_then_always": True,
        "training_job_export": export,
        "__playbook_running": "x",
    }
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    command = [sys.executable, "-m", "ansible", "playbook", "-i", "localhost,", "play.yml"]
    done = subprocess.run(command, env=os.environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "no luck" in done.stdout
    assert (done.returncode == 0, "nodes may go" in done.stdout) == (nodes_go, nodes_go), done.stdout
