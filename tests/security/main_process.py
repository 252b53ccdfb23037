"""What a result costs the main process of Ansible."""

from __future__ import annotations

import gc
import pickle
import time
from types import SimpleNamespace

from ansible.utils.vars import transform_to_native_types
from ansible.vars.clean import module_response_deepcopy, strip_internal_keys
from ansible_collections.deeplearning.cluster.plugins.callback.concise import CallbackModule

HOST = SimpleNamespace(get_name=lambda: "bert-worker2", get_vars=lambda: {"deeplearning_instance_id": "i-0bb2"})


def main_process_seconds(result, is_failed=False):
    """Return the CPU seconds that the main process needs to receive, show and register a result."""
    sent = pickle.dumps(result)
    callback, task = CallbackModule(), SimpleNamespace(_uuid="1", action="x", check_mode=False, ignore_unreachable=False)
    task.__dict__.update(name="x", _role=None, delegate_to=None, run_once=False, args={}, diff=True, _parent=None)
    callback.get_option = lambda _name: False
    callback._display = SimpleNamespace(verbosity=0, display=lambda *_, **__: None, warning=lambda *_: None)
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
