"""Tests of what the collection needs of ansible-core that is not public: `make newest` runs them with the newest version.

A method is overridden only where ansible-core has no public way. If a version no longer has or calls it, the override has no effect.
"""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.plugins.action import ActionBase
from ansible.plugins.action.normal import ActionModule
from ansible.plugins.callback import CallbackBase
from ansible.plugins.inventory import BaseInventoryPlugin, Constructable
from ansible.plugins.lookup import LookupBase
from ansible.utils.display import Display
from ansible_collections.amazon.aws.plugins.module_utils.modules import AnsibleAWSModule

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
# What the plugins and the modules that run on the controller are derived from.
BASES = (ActionBase, CallbackBase, Constructable, BaseInventoryPlugin, LookupBase, AnsibleAWSModule)
KINDS = ("action", "callback", "filter", "inventory", "lookup", "plugin_utils", "module_utils/_aws")
# The private methods that classes of the collection override, and why.
OVERRIDDEN = {
    "_execute_module": "limits the memory and the time of a module's result, and keeps only its documented part",
    "_low_level_execute_command": "limits the time and the size of a host's output",
    "_transfer_file": "limits the time to send a file to a host",
    "_update_module_args": "keeps arguments out of the hosts' syslog. The public way, no_log, would also hide the result",
    "_parse_returned_data": "takes warnings out of a result before ansible-core shows them",
}
# The private attributes of ansible-core that the collection uses, by class.
USED = {
    ActionBase: ("_fixup_perms2", "_make_tmp_path", "_remove_tmp_path"),
    CallbackBase: ("_clean_results", "_get_diff", "_get_item_label", "_handle_warnings"),
}


def own_methods():
    """Return the private methods of all classes of the plugins, and of what runs on the controller."""
    trees = [ast.parse(path.read_text()) for kind in KINDS for path in (PLUGINS / kind).rglob("*.py")]
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    names = {each.name for node in classes for each in node.body if isinstance(each, ast.FunctionDef)}
    return {name for name in names if name.startswith("_") and not name.startswith("__")}


def test_only_these_private_methods_are_overridden():
    assert {name for name in own_methods() if any(hasattr(base, name) for base in BASES)} == OVERRIDDEN.keys()


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_ansible_calls_what_is_overridden(name):
    calls = [node.func for node in ast.walk(ast.parse(inspect.getsource(sys.modules[ActionBase.__module__]))) if isinstance(node, ast.Call)]
    if name == "_execute_module":  # what runs a module calls it: the action `normal`, and the actions of the collection
        assert list(inspect.signature(ActionBase._execute_module).parameters)[1:5] == ["module_name", "module_args", "tmp", "task_vars"]
    else:
        assert name in {call.attr for call in calls if isinstance(call, ast.Attribute) and ast.unparse(call.value) == "self"}


@pytest.mark.parametrize(("owner", "name"), [(owner, name) for owner, names in USED.items() for name in names])
def test_ansible_has_the_private_methods_that_are_called(owner, name):
    assert callable(getattr(owner, name))


def test_ansible_has_the_private_attributes_that_are_read():
    action = ActionModule(Task(), SimpleNamespace(), None, DataLoader(), None, None)
    assert {"_discovered_interpreter", "_discovered_interpreter_key", "_task", "_connection", "_loader", "_templar"} <= vars(action).keys()
    assert {"_parent", "_role", "_uuid"} <= set(dir(Task()))
    assert Display()._lock.acquire(blocking=False)
    Display()._lock.release()
