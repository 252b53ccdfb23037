"""Tests of the filter that finds hosts without the parameters of waiting jobs."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.filter.queued_job_transfers import queued_job_transfers


def host(number, *jobs):
    """Return the variables of a host that has the parameters of jobs, given as names with the numbers of the jobs' hosts."""
    found = {
        "host": {"name": f"worker{number}"},
        "jobs": [{"name": name, "hosts": [f"worker{each}" for each in numbers]} for name, numbers in jobs],
    }
    return {"inventory_hostname": f"demo-worker{number}", "found": found}


def test_a_new_host_lacks_only_its_own_jobs():
    everywhere, elsewhere = ("bert", range(1, 6)), ("digits", (1, 2))
    hosts = [host(1, everywhere, elsewhere), host(2, everywhere, elsewhere), host(3), host(4, everywhere), host(5, everywhere)]
    found = queued_job_transfers(hosts, "found")
    assert found["lacking"] == {"demo-worker3": ["bert"]}
    assert found["holders"] == {f"demo-worker{number}": ["bert"] for number in (1, 2, 4)}, "three of the hosts, and not the other job"
    assert found["hosts"] == [{"name": f"worker{number}"} for number in range(1, 6)]


def test_nothing_is_transferred_if_no_host_lacks_parameters():
    job = ("bert", (1, 2))
    hosts = [host(1, job), host(2, job), host(3)]
    found = queued_job_transfers(hosts, "found")
    assert (found["lacking"], found["holders"]) == ({}, {})


def test_hosts_without_a_result_are_ignored():
    incomplete = {"inventory_hostname": "demo-worker3", "found": {"host": {"name": "worker3"}}}
    failed = {"inventory_hostname": "demo-worker2", "found": {"failed": True}}
    hosts = [host(1, ("bert", (1, 2))), failed, incomplete, {"inventory_hostname": "x"}]
    assert queued_job_transfers(hosts, "found") == {"lacking": {}, "holders": {}, "hosts": [{"name": "worker1"}]}


def test_no_host_can_hide_that_another_host_belongs_to_a_job():
    hosts = [host(1, ("bert", ())), host(2, ("bert", (1, 2, 3))), host(3)]
    assert queued_job_transfers(hosts, "found")["lacking"] == {"demo-worker3": ["bert"]}


def test_a_minority_of_the_hosts_cannot_add_a_host_to_a_job():
    hosts = [host(1, ("bert", (2,))), host(2), host(5, ("bert", (5, 6))), host(6, ("bert", (5, 6)))]
    found = queued_job_transfers(hosts, "found")
    assert (found["lacking"], found["holders"]) == ({}, {})


def test_a_host_has_one_vote_even_if_it_returns_a_job_several_times():
    hosts = [host(1, ("bert", (1, 2))), host(2, ("bert", (1, 2))), host(3), host(4, *[("bert", (3, 4))] * 3)]
    found = queued_job_transfers(hosts, "found")
    assert (found["lacking"], found["holders"]) == ({}, {})
