# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The rules of the layout in docs/architecture.md: what runs where, and what may import what."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
COLLECTION = "ansible_collections.deeplearning.cluster.plugins."
HOSTS = "module_utils._hosts"
CONTROLLER = "module_utils._aws"
BOTH = ("module_utils._job", "module_utils._launchers", "module_utils._text")
PURE = ("module_utils._launchers", "module_utils._aws.plan.planning", "module_utils._aws.plan.resources", "module_utils._aws.iam_actions")
SDK = {"boto3", "botocore", "ansible_collections.amazon"}


def imports() -> dict[str, set[str]]:
    """Return what each file of plugins/ imports, both as dotted names; those of the collection begin below C(plugins)."""
    found: dict[str, set[str]] = {}
    modules = {".".join(path.relative_to(PLUGINS).with_suffix("").parts): path for path in PLUGINS.rglob("*.py")}
    for module, path in modules.items():
        names = found[module.removesuffix(".__init__")] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{path} has a relative import"
                source = str(node.module).removeprefix(COLLECTION)
                names.update(f"{source}.{alias.name}" if f"{source}.{alias.name}" in modules else source for alias in node.names)
    return found


IMPORTS = imports()


def within(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def forbidden(importers: tuple[str, ...], imported: tuple[str, ...]) -> dict[str, list[str]]:
    return {
        module: bad
        for module, names in IMPORTS.items()
        if within(module, *importers) and (bad := sorted(name for name in names if within(name, *imported)))
    }


def test_what_runs_on_hosts_needs_neither_boto3_nor_the_controller():
    controller = (*SDK, CONTROLLER, "action", "inventory", "plugin_utils", "modules")
    assert forbidden((HOSTS, *BOTH), controller) == {}


def test_what_both_sides_share_needs_no_side():
    assert forbidden(BOTH, (HOSTS,)) == {}


def test_pure_code_needs_nothing_but_the_standard_library():
    assert forbidden(PURE, (*SDK, "ansible")) == {}


def test_nothing_but_a_module_imports_modules():
    assert forbidden(("action", "inventory", "filter", "plugin_utils", "module_utils"), ("modules",)) == {}


def test_plans_are_applied_in_one_place():
    importers = {module for module, names in IMPORTS.items() if "module_utils._aws.plan.execute" in names}
    assert importers == {"module_utils._aws.provision.provisioning", "modules.dataset_bucket"}


FOLDERS = {module.rpartition(".")[0] for module in IMPORTS}


def package(module: str) -> str:
    """Return the folder of a module; a module beside packages is one by itself."""
    folder = module.rpartition(".")[0]
    return module if any(other.startswith(folder + ".") for other in FOLDERS) else folder


def test_packages_do_not_import_each_other():
    graph: dict[str, set[str]] = {}
    for module, names in IMPORTS.items():
        own = graph.setdefault(package(module), set())
        own.update(package(name) for name in names if name in IMPORTS and package(name) != package(module))
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))
