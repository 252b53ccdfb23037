"""Notifications about jobs on a real host, to a webhook and to a mail server on the controller."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from local_cloud.testing import wait_until
from receivers import mail_server, serving, webhook

from .cluster import job_cluster

COMMAND = "ansible-playbook -i inventory.yml deeplearning.cluster"
# What the run has found out before the job.
PROVISIONED = {"price": {"hourly": 2.0, "currency": "USD", "charges": [], "published": "", "read_at": None, "problem": ""}}
COSTS = f"The cluster continues to cost 2.00 USD per hour (48.00 USD per day), without traffic and taxes, until you run {COMMAND}.destroy"
OPTIONS = {"launcher": "command", "launcher_options": {"hosts": "all"}, "python": "/usr/bin/python3"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with job_cluster(tmp_path_factory.mktemp("notifications"), [], count=1) as result:
        yield result


@pytest.fixture
def train(cluster):
    """Return a function that runs a job and returns the run, the notifications at the webhook by kind, and the mails.

    Notifications about events within a second can arrive in a different order.
    """

    def run(name, script, **variables):
        with serving(webhook()) as (port, posts), serving(mail_server()) as (smtp, mails):
            mail = f"mailto://127.0.0.1:{smtp}/?from=cluster@example.org&to=team@example.org"
            given = {"deeplearning_notify": [f"json://127.0.0.1:{port}/battery-horse", mail], "provision_result": PROVISIONED}
            done = cluster.play(cluster.playbook(name, script, **{**OPTIONS, **variables}), "-e", json.dumps(given))
        assert {each["title"] for each in posts} == {f"jobs {name}"}
        assert len({each["type"] for each in posts}) == len(posts) == len(mails)
        assert "battery-horse" not in done.stdout + done.stderr
        assert "deeplearning_notify" not in done.stderr
        return done, {each["type"]: each["message"] for each in posts}, mails

    return run


def test_a_job_that_ends_sends_a_notification(train):
    done, posts, mails = train("ends", "import time\ntime.sleep(3)\n")
    assert done.returncode == 0, done.stdout + done.stderr
    assert posts == {
        "info": f"Job ends runs with 1 process on 1 host. To watch it, run: {COMMAND}.logs -e follow=true -e training_job_name=ends",
        "success": f"Job ends succeeded. {COSTS}\nTo show it, run: {COMMAND}.status -e training_job_name=ends",
    }
    assert [mail.count("Subject: jobs ends") for mail in mails] == [1, 1]


def test_a_job_that_fails_sends_a_notification_with_the_cause(train):
    script = "import sys\nraise ValueError('<!channel> see https://evil.example, the token is correct-staple')\n"
    done, posts, _mails = train("fails", script, secrets={"TOKEN": "correct-staple"}, restarts=1)
    assert done.returncode != 0
    said = "(!channel) see https:/ /evil.example, the token is AS_BEFORE"
    ended = "rank 0 on deeplearning-worker1 ended with exit status 1"
    assert posts.keys() == {"info", "warning", "failure"}
    assert posts["warning"].startswith(
        f"Job fails: attempt 1 failed: {ended} (ValueError at fails.py, line 2: {said}). The job continues on "
    )
    assert posts["warning"].endswith(f"To show its attempts, run: {COMMAND}.status -e training_job_name=fails")
    assert posts["failure"] == (
        f"Job fails failed: {ended}. Its log ends with: ValueError: {said}. {COSTS}\nTo read all logs, run: "
        f"{COMMAND}.logs -e training_job_name=fails"
    )


def test_a_host_that_loses_its_storage_does_not_say_that_there_is_no_job(train, cluster):
    """A node that shuts down unmounts its storage before it becomes unreachable."""

    def lose():
        wait_until(lambda: cluster.processes("python3 /efs/jobs/loses/code"))
        time.sleep(5)  # the run sees the job
        cluster.hosts[0].ssh("sudo mv /efs/jobs /efs/away")

    with ThreadPoolExecutor() as pool:
        losing = pool.submit(lose)
        done, posts, _mails = train("loses", "import time\ntime.sleep(600)\n", heartbeat_timeout=10)
        losing.result()
    cluster.hosts[0].ssh("sudo mv /efs/away /efs/jobs")
    assert done.returncode != 0
    assert "there is no job" not in done.stdout
    assert "has not told its status for 10 s: it does not find the files of the job, as if its storage were not mounted" in posts["failure"]
