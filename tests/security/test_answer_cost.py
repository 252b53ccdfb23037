# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The largest result that the filter accepts costs Ansible's main process less than a second.

The tests build results from the documentation of each module: for each documented key, as many values as the filter accepts.
"""

from __future__ import annotations

import gc
import pickle
import time
from types import SimpleNamespace

import pytest
from ansible import context
from ansible.utils.vars import transform_to_native_types
from ansible.vars.clean import module_response_deepcopy, strip_internal_keys
from ansible_collections.deeplearning.cluster.plugins.callback.concise import CallbackModule
from ansible_collections.deeplearning.cluster.plugins.module_utils._job.schema import count_values
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import answers

from .nodes import ON_NODES

# The actions of these modules run another module on nodes.
WITHOUT_OWN_MODULE = {"training_job_status", "training_job_logs", "training_job_wait"}
MODULES = sorted(set(ON_NODES) - WITHOUT_OWN_MODULE)
HOST = SimpleNamespace(get_name=lambda: "bert-worker2", get_vars=lambda: {"deeplearning_instance_id": "i-0bb2"})
LEAVES = {"str": "x", "text": "x", "path": "/x", "int": 1, "float": 0.5, "bool": True, "dict": {}, "raw": []}


def smallest(description):
    """Return the smallest valid value."""
    if description["type"] == "list":
        return []
    if description["type"] == "dict" and description.get("contains"):
        return smallest_members(description["contains"], is_nested=True)
    return description["choices"][0] if description.get("choices") else LEAVES[description["type"]]


def smallest_members(documented, is_nested):
    required = {
        name: one
        for name, one in documented.items()
        if (one.get("returned") is None if is_nested else one.get("returned") in ("always", "success"))
    }
    return {name: smallest(one) for name, one in required.items()}


def variants(description):
    """Yield functions that return a value of about `count` members, one for each kind of key in a description."""
    element = {"type": description.get("elements", "raw"), "contains": description.get("contains")}
    if description["type"] == "list":
        yield lambda count: [smallest(element) for _unused in range(count)]
        for grown in variants(element) if element["type"] in ("dict", "list") else ():
            yield lambda count, grown=grown: [grown(count)]
            yield lambda count, grown=grown: [grown(1) for _unused in range(count)]
    elif description["type"] == "dict" and description.get("contains"):
        least = smallest(description)
        for name, one in of_each_kind(description["contains"]):
            for grown in variants(one):
                yield lambda count, name=name, grown=grown: {**least, name: grown(count)}
    elif description["type"] in ("dict", "raw"):
        yield lambda count: {str(number): [] for number in range(count)}
        yield lambda count: {str(number): str(number) for number in range(count)}
    elif description["type"] in ("str", "text"):
        yield lambda count: smallest(description) if description.get("choices") else "x" * count * 40


def of_each_kind(documented):
    """Return the name and description of each key. Of several texts, and of several lists of texts, only the first is returned."""
    kinds = {}
    for name, one in documented.items():
        is_plain = not one.get("contains")
        kinds.setdefault((one["type"], one.get("elements"), bool(one.get("choices"))) if is_plain else name, (name, one))
    return kinds.values()


def main_process_seconds(result, is_failed=False):
    """Return the CPU seconds that the main process needs to receive, show and register a result."""
    sent = pickle.dumps(result)
    callback, task = CallbackModule(), SimpleNamespace(_uuid="1", action="x", check_mode=False, ignore_unreachable=False)
    task.__dict__.update(name="x", _role=None, delegate_to=None, run_once=False, args={}, diff=True, _parent=None)
    callback.get_option = lambda _name: False
    callback._display = SimpleNamespace(verbosity=0, display=lambda *_, **__: None, warning=lambda *_: None)
    gc.collect()
    gc.freeze()  # the main process does not have the objects of the tests
    start = time.thread_time()
    received = pickle.loads(sent)
    shown = transform_to_native_types(strip_internal_keys(module_response_deepcopy(received)))
    event = SimpleNamespace(result=shown, host=HOST, task=task, task_name="x", warnings=[], is_changed=lambda: True)
    callback.v2_on_file_diff(event)
    (callback.v2_runner_on_failed if is_failed else callback.v2_runner_on_ok)(event)
    callback._flush()
    strip_internal_keys(module_response_deepcopy(received))
    seconds = time.thread_time() - start
    gc.unfreeze()
    return seconds


@pytest.fixture(autouse=True)
def _command_line(monkeypatch):
    monkeypatch.setattr(context, "CLIARGS", {"check": False})


# A quarter of the values takes a quarter of the time.
PART = 4


@pytest.mark.parametrize("module", MODULES)
def test_the_largest_result_of_each_key_takes_less_than_a_second(module):
    documented = {**answers.COMMON, **answers.returned_values(f"deeplearning.cluster.{module}")}
    least = {"changed": True, **smallest_members(documented, is_nested=False)}
    # The result of a report does not reach the main process.
    limit = answers.VALUES if module == "training_job_report" else answers.LARGE.get(module, answers.USUAL).values
    slow = {}
    for name, description in of_each_kind(documented):
        for number, grown in enumerate(variants(description)):
            part = filtered(module, {**least, name: grown(size(grown, limit // PART))}, limit // PART + 100)
            assert not part.get("failed") or name == "failed", (name, number, part["msg"][:300])
            seconds = PART * main_process_seconds(part)
            if seconds >= 1:
                slow[f"{name} {number}"] = seconds
    assert slow == {}


def size(grown, limit):
    """Return the number of members with which a value consists of `limit` values."""
    each = (count_values(grown(101), 1 << 40) - count_values(grown(1), 1 << 40)) / 100
    return int((limit - count_values(grown(1), 1 << 40)) / each) if each else 100_000


def filtered(module, result, limit):
    return answers.documented_part(result, f"deeplearning.cluster.{module}", "bert-worker2", limit)


@pytest.mark.parametrize("module", MODULES)
def test_more_values_are_refused_before_they_are_read(module):
    result = {"changed": False, "forged": [[] for _unused in range(30_000)]}
    part = filtered(module, result, answers.VALUES)
    assert part["msg"].startswith(f"bert-worker2: the result of {module} is not valid: it has more than 100000 values. Check the host, ")
