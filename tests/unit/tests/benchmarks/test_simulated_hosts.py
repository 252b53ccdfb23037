"""The answers of simulated hosts describe the large cluster, although a small one has given them."""

from __future__ import annotations

import json

import pytest
from benchmarks import simulated_hosts


def cluster(count, network):
    names = ["demo-master", *(f"demo-worker{number}" for number in range(2, count + 1))]
    numbered = enumerate(names, 1)
    nodes = [simulated_hosts.Node(name, number, f"i-{network}{number:03}", f"10.{network}.0.{number}", "") for number, name in numbered]
    return simulated_hosts.Cluster("demo", nodes, f"fs-{network}")


def described(node):
    return {"name": node.name, "instance": node.instance_id, "number": node.number, "address": node.address, "rank": node.number - 1}


@pytest.mark.parametrize("number", [1, 2, 5, 12])
def test_each_node_describes_itself_and_all_others(number):
    small, large = (cluster(count, network) for count, network in ((3, 1), (12, 7)))
    source, node = small.nodes[min(number, 2) - 1], large.nodes[number - 1]

    def answer(own, nodes):
        return {
            "host": described(own),
            "hosts": len(nodes),
            "jobs": [{"over": True, "of": [described(each) for each in nodes]}],
            "rest": [3],
        }

    recording = {(source.instance_id, "training_job"): [json.dumps(answer(source, small.nodes)), json.dumps({"changed": True})]}
    answers = simulated_hosts.Answers(recording, small, large)
    assert json.loads(answers.module(node, "training_job", 0)) == answer(node, large.nodes)
    assert [json.loads(answers.module(node, "training_job", count)) for count in (1, 2)] == [{"changed": True}] * 2


def test_commands_of_ansible_are_told_from_those_of_the_collection():
    module = "ansible_collections.deeplearning.cluster.plugins.modules.training_job_info"
    assert simulated_hosts.subject("/usr/bin/python3", f"module_fqn='{module}',") == "training_job_info"
    assert simulated_hosts.subject("sh -c 'getent passwd root ubuntu'", "") == simulated_hosts.INSPECTION
    assert simulated_hosts.subject("/bin/sh -c 'echo ~ubuntu'", "") == ""
    assert simulated_hosts.shell("/bin/sh -c 'test -e /efs/jobs/new && sleep 0'") == (1, "")
    created = (
        '( umask 77 && mkdir -p "` echo /t `"&& mkdir "` echo /t/ansible-tmp-1-2 `" && echo ansible-tmp-1-2="` echo /t/ansible-tmp-1-2 `" )'
    )
    assert simulated_hosts.shell(created) == (0, "ansible-tmp-1-2=/t/ansible-tmp-1-2\n")
