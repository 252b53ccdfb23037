# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Tests of the default number of spares of a job."""

from __future__ import annotations

from pathlib import Path

import jinja2
import pytest
import yaml

DEFAULTS = yaml.safe_load((Path(__file__).resolve().parents[3] / "roles" / "training_job" / "defaults" / "main.yml").read_text())


@pytest.mark.parametrize(
    ("hosts", "definition", "spares"),
    [
        (5, {}, 0),
        (5, {"deeplearning_worker_count": 4}, 0),
        (5, {"deeplearning_worker_count": 3, "deeplearning_spares": 1}, 1),
        (5, {"deeplearning_worker_count": "2", "deeplearning_spares": "2"}, 2),
        # The job runs on some of the nodes
        (3, {"deeplearning_worker_count": 3, "deeplearning_spares": 1}, 0),
        (5, {"deeplearning_worker_count": 3, "deeplearning_spares": 2}, 1),
        (5, {"deeplearning_worker_count": 3, "deeplearning_spares": 1, "training_job_queue": "slurm"}, 0),
        # Other hosts, which the definition does not describe
        (5, {"deeplearning_worker_count": 0, "deeplearning_spares": 0}, 0),
        (5, {"deeplearning_spares": 1}, 0),
    ],
)
def test_a_job_on_all_nodes_leaves_the_spares_of_the_definition_out(hosts, definition, spares):
    names = [f"worker{number}" for number in range(hosts)]
    environment = jinja2.Environment()
    environment.filters["int"] = int
    template = environment.from_string(DEFAULTS["training_job_spares"])
    assert template.render({"training_job_queue": "", "ansible_play_hosts_all": names, **definition}) == str(spares)
