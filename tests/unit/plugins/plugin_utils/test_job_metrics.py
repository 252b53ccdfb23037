"""Tests of the file with the metrics of a job on the controller."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.plugin_utils import job_metrics

GOODPUT = {"nodes": 2, "seconds": 100.0, "ratio": 0.75, "buckets": {"training": 150.0}, "hosts": []}


def test_missing_directories_are_created(tmp_path):
    file = job_metrics.JobMetrics(
        str(tmp_path / "new/metrics"), "digits", {"account": "123456789012", "region": "us-east-1", "cluster": "demo"}
    )
    file.write({"name": "digits", "state": "running"})
    assert not file.path.parent.exists()
    file.write({"name": "digits", "state": "running", "attempt": 1, "goodput": GOODPUT})
    assert file.path == tmp_path / "new/metrics/deeplearning-123456789012.us-east-1.demo.digits.prom"
    assert (
        'deeplearning_job_nodes{account="123456789012",region="us-east-1",cluster="demo",training_job="digits"} 2.0\n'
        in file.path.read_text()
    )


def test_metrics_are_asked_for_once_in_a_minute(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(job_metrics.time, "monotonic", lambda: now[0])
    file = job_metrics.JobMetrics("~/metrics", "digits", {})
    assert file.path == job_metrics.Path("~/metrics/deeplearning-digits.prom").expanduser()
    found = []
    for now[0] in (1000.0, 1059.9, 1060.0, 1119.0, 1121.0):
        found.append(file.arguments())
    assert found == [{"goodput": "always"}, {}, {"goodput": "always"}, {}, {"goodput": "always"}]
