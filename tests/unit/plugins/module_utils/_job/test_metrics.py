"""Tests of the format of a job's metrics, and of the file that contains them."""

from __future__ import annotations

import os

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import metrics

GOODPUT = {"nodes": 2, "seconds": 100.0, "ratio": 0.75, "buckets": {"training": 150.0, "start": 50.125}, "hosts": []}
JOB = {
    "name": "digits",
    "state": "running",
    "attempt": 2,
    "goodput": GOODPUT,
    "step_times": [{"name": 'w"1\\', "seconds": 0.5, "slow": False}],
}

TEXT = r"""# HELP deeplearning_job_node_seconds What the hosts of the job spent their time on. The buckets add up to the time of all hosts.
# TYPE deeplearning_job_node_seconds gauge
deeplearning_job_node_seconds{cluster="demo",training_job="digits",bucket="training"} 150.0
deeplearning_job_node_seconds{cluster="demo",training_job="digits",bucket="start"} 50.125
# HELP deeplearning_job_goodput_ratio Share of the time of all hosts that was spent on training.
# TYPE deeplearning_job_goodput_ratio gauge
deeplearning_job_goodput_ratio{cluster="demo",training_job="digits"} 0.75
# HELP deeplearning_job_nodes Number of hosts that the job has or had.
# TYPE deeplearning_job_nodes gauge
deeplearning_job_nodes{cluster="demo",training_job="digits"} 2.0
# HELP deeplearning_job_attempts Number of attempts, which is 1 if the job was not restarted.
# TYPE deeplearning_job_attempts gauge
deeplearning_job_attempts{cluster="demo",training_job="digits"} 2.0
# HELP deeplearning_job_running Whether the job is running or waiting.
# TYPE deeplearning_job_running gauge
deeplearning_job_running{cluster="demo",training_job="digits"} 1.0
# HELP deeplearning_job_step_seconds Median step time of a host, in seconds.
# TYPE deeplearning_job_step_seconds gauge
deeplearning_job_step_seconds{cluster="demo",training_job="digits",host="w\"1\\"} 0.5
"""


def test_a_file_contains_the_metrics_in_the_format_of_prometheus(tmp_path):
    file = metrics.MetricsFile(tmp_path, "digits", "demo")
    file.write(JOB)
    assert file.path == tmp_path / "deeplearning-digits.prom"
    assert file.path.read_text() == TEXT
    assert os.listdir(tmp_path) == ["deeplearning-digits.prom"]
    file.write({**JOB, "state": "failed", "step_times": []})
    assert 'deeplearning_job_running{cluster="demo",training_job="digits"} 0.0\n' in file.path.read_text()
    assert "step_seconds" not in file.path.read_text()


def test_without_a_cluster_there_is_no_label(tmp_path):
    file = metrics.MetricsFile(tmp_path, "digits", "")
    file.write(JOB)
    assert 'deeplearning_job_nodes{training_job="digits"} 2.0\n' in file.path.read_text()


def test_nothing_is_written_for_a_result_without_metrics(tmp_path):
    metrics.MetricsFile(tmp_path, "digits", "").write({"name": "digits", "state": "running"})
    assert os.listdir(tmp_path) == []


def test_a_file_that_cannot_be_replaced_leaves_nothing(tmp_path):
    (tmp_path / "deeplearning-digits.prom").mkdir()
    with pytest.raises(OSError, match=r"deeplearning-digits\.prom"):
        metrics.MetricsFile(tmp_path, "digits", "").write(JOB)
    assert os.listdir(tmp_path) == ["deeplearning-digits.prom"]


def test_the_number_of_hosts_with_step_times_is_limited(tmp_path):
    times = [{"name": f"w{number}", "seconds": 1.0, "slow": False} for number in range(metrics.STEP_TIMES_LIMIT + 1)]
    file = metrics.MetricsFile(tmp_path, "digits", "")
    file.write({**JOB, "step_times": times})
    assert file.path.read_text().count("deeplearning_job_step_seconds{") == metrics.STEP_TIMES_LIMIT
