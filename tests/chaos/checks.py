"""Runs health checks on hosts with faults, one fault per host at a time, and on healthy hosts."""

from __future__ import annotations

import itertools
import json
import os
from concurrent.futures import ThreadPoolExecutor

import ansible_commands
from hosts.cluster import CLUSTER

from .faults import health
from .judge import judge_health

# Number of checks of healthy hosts after which the number of wrong findings is shown.
EVERY = 100


def run(cluster, module, parameters=()):
    """Run a module as root on all hosts at the same time, and return what Ansible prints."""
    arguments = [
        "trainers",
        "-i",
        str(cluster.inventory),
        "--become",
        "-m",
        module,
        *(["-a", json.dumps(parameters)] if parameters else []),
    ]
    # A host with a read-only root file system can still write to /tmp.
    environment = {**os.environ, "ANSIBLE_CALLBACK_RESULT_FORMAT": "json", "ANSIBLE_REMOTE_TMP": "/tmp/.ansible"}
    done = ansible_commands.run(["ansible", *arguments], environment, cluster.folder)
    return done.stdout, done.stderr


def check(cluster, parameters=None):
    """Run the module node_health over SSH with these or default parameters, and return the findings on each host."""
    text, error = run(cluster, "deeplearning.cluster.node_health", parameters or health.PARAMETERS)
    found = {}
    for number in range(1, len(cluster.hosts) + 1):
        start = text.find(f"{CLUSTER}-worker{number} | ")
        result = json.JSONDecoder().raw_decode(text, text.index("{", start))[0] if start >= 0 else {}
        if "findings" not in result:
            raise OSError(f"node_health has no result for worker {number}: {text}{error}")
        found[number - 1] = result["findings"]
    return found


def prepare(cluster):
    """Make the hosts look like healthy hosts with GPUs and adapters."""
    with ThreadPoolExecutor(len(cluster.hosts)) as pool:
        list(pool.map(health.prepare, cluster.hosts))


def judge_faults(cluster, faults):
    """Inject the faults, and yield each fault and the judge's complaints about the findings on the faulty host."""
    prepare(cluster)
    with ThreadPoolExecutor(len(cluster.hosts)) as pool:
        for together in batches(faults, len(cluster.hosts)):
            chosen = list(zip(cluster.hosts, together, strict=False))
            list(pool.map(lambda each: inject(*each), chosen))
            found = check(cluster, {**health.PARAMETERS, **together[0].parameters})
            list(pool.map(health.restore, cluster.hosts))
            for number, (_host, fault) in enumerate(chosen):
                yield fault, judge_health(fault, found[number])


def batches(faults, size):
    """Return the faults in lists of at most `size` faults with the same parameters of the module."""
    groups = {}
    for fault in faults:
        groups.setdefault(json.dumps(fault.parameters, sort_keys=True), []).append(fault)
    return [group[first : first + size] for group in groups.values() for first in range(0, len(group), size)]


def inject(host, fault):
    name = fault.injector.partition(".")[2]
    arguments = dict(fault.arguments)
    getattr(health, name)(host, **arguments)


def wrong_verdicts(cluster, count):
    """Check healthy hosts at least `count` times. Return the number of checks and the findings. One check examines one host."""
    prepare(cluster)
    checks, wrong = 0, []
    while checks < count:
        found = check(cluster)
        checks += len(found)
        wrong += itertools.chain(*found.values())
        if checks % EVERY == 0:
            print(f"{checks} checks of healthy hosts, {len(wrong)} wrong findings", flush=True)
    return checks, wrong
