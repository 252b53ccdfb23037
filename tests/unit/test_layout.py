"""Tests of the layout rules in CONTRIBUTING.md: where code runs, what it may import, and where its tests are.

Other tests limit the complexity of functions and compare the template of a project with the README.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.utils.display import Display
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts import programs
from radon.complexity import cc_visit
from radon.visitors import Class, Function

REPOSITORY = Path(__file__).resolve().parents[2]
PLUGINS = REPOSITORY / "plugins"
TESTS = sorted(path.relative_to(REPOSITORY / "tests" / "unit") for path in (REPOSITORY / "tests" / "unit").glob("*/**/test_*.py"))
COLLECTION = "ansible_collections.deeplearning.cluster.plugins."
HOSTS = "module_utils._hosts"
CONTROLLER = "module_utils._aws"
BOTH = tuple(f"module_utils.{name}" for name in ("_common", "_files", "_job", "_launchers", "_queues", "_secret_forms", "_text"))
PURE = (
    "module_utils._launchers",
    "module_utils._queues",
    "module_utils._aws.plan.planning",
    "module_utils._aws.plan.resources",
    "module_utils._aws.iam_actions",
)
PROGRAMS = (PLUGINS, REPOSITORY / "roles", REPOSITORY / "tools", REPOSITORY / "extensions" / "local_cloud" / "local_cloud")
# The maximum cyclomatic complexity of a function. Unlike the linter, radon also counts comprehensions and boolean operators.
COMPLEXITY = 12
# The maximum number of lines of a Python file of plugins, roles and tools.
LINES = 500
SDK = {"boto3", "botocore", "ansible_collections.amazon"}


def imported_by(path: Path) -> set[str]:
    """Return the dotted names of a file's imports. Names in the collection are relative to `plugins`."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = path.relative_to(PLUGINS).parts[: -node.level] if node.level and PLUGINS in path.parents else ()
            source = ".".join((*base, *filter(None, [node.module]))).removeprefix(COLLECTION)
            names.update(f"{source}.{alias.name}" if f"{source}.{alias.name}" in MODULES else source for alias in node.names)
    return names


MODULES = {".".join(path.relative_to(PLUGINS).with_suffix("").parts): path for path in PLUGINS.rglob("*.py")}
IMPORTS = {module.removesuffix(".__init__"): imported_by(path) for module, path in MODULES.items()}


def within(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def forbidden(importers: tuple[str, ...], imported: tuple[str, ...]) -> dict[str, list[str]]:
    return {
        module: bad
        for module, names in IMPORTS.items()
        if within(module, *importers) and (bad := sorted(name for name in names if within(name, *imported)))
    }


def reached_from(module: str) -> set[str]:
    """Return the modules that Ansible copies to hosts with a module: all that it imports directly or indirectly, anywhere in the code."""
    found: set[str] = set()
    waiting = {module}
    while waiting:
        found |= waiting
        waiting = set().union(*(IMPORTS.get(name, ()) for name in waiting)) - found
    return found


def test_imports_in_the_collection_are_relative():
    assert [module for module, path in MODULES.items() if f"from {COLLECTION}" in path.read_text()] == []


def test_what_runs_on_hosts_needs_neither_boto3_nor_the_controller():
    controller = (*SDK, CONTROLLER, "action", "callback", "inventory", "plugin_utils", "modules")
    assert forbidden((HOSTS, *BOTH), controller) == {}


def test_the_controller_needs_no_code_that_only_hosts_run():
    controller = ("action", "callback", "inventory", "filter", "lookup", "plugin_utils", CONTROLLER)
    assert forbidden(controller, (HOSTS,)) == {}


def test_what_both_sides_share_needs_no_side():
    assert forbidden(BOTH, (HOSTS,)) == {}


def test_pure_code_needs_nothing_but_the_standard_library():
    assert forbidden(PURE, (*SDK, "ansible")) == {}


@pytest.mark.parametrize(
    ("module", "program"),
    [
        ("training_job", "training_job.run.supervisor"),
        ("training_job", "training_job.start.rejoin"),
        ("training_job", "training_job.queue.lead"),
        ("training_job", "node_health.service"),
        ("queued_jobs", "training_job.queue.lead"),
        ("training_job_export", "training_job_export.exporter"),
        ("node_setup", "node_setup.runner"),
    ],
)
def test_ansible_copies_to_hosts_what_a_program_consists_of(module, program):
    contents = {f"module_utils.{name}" for name in programs.sources(f"_hosts.{program}")}
    assert {name for name in reached_from(f"module_utils._hosts.{program}") if name.startswith("module_utils.")} <= contents
    assert contents - reached_from(f"modules.{module}") == set()


@pytest.mark.parametrize("module", ["training_job_info", "training_job_report"])
def test_ansible_copies_no_program_of_jobs_to_hosts_that_only_read_files(module):
    """Ansible compiles each file of a module once on the controller, and hosts compile it whenever they run the module."""
    assert sorted(name for name in reached_from(f"modules.{module}") if within(name, f"{HOSTS}.training_job.run")) == []


def test_nothing_but_a_module_imports_modules():
    assert forbidden(("action", "callback", "inventory", "filter", "lookup", "plugin_utils", "module_utils"), ("modules",)) == {}


def test_plans_are_applied_in_one_place():
    importers = {module for module, names in IMPORTS.items() if "module_utils._aws.plan.execute" in names}
    assert importers == {"module_utils._aws.provision.apply", "modules.dataset_bucket"}


def test_few_files_name_a_kind_of_storage():
    """Mounts are data: code outside the package for a kind of storage loops over all kinds. Generated files are not counted."""
    generated = ("plugins/doc_fragments/", "roles/provision/", "plugins/module_utils/_aws/storage/lustre/")
    files = [path for folder in ("plugins", "roles", "playbooks", "meta", "tools") for path in (REPOSITORY / folder).rglob("*")]
    sources = [path for path in files if path.suffix in (".py", ".yml", ".md", ".j2", ".sh")]
    names = sorted(str(path.relative_to(REPOSITORY)) for path in sources if "lustre" in path.read_text().lower())
    assert len([name for name in names if not name.startswith(generated)]) <= 10, names


FOLDERS = {module.rpartition(".")[0] for module in IMPORTS}


def package(module: str) -> str:
    """Return the package of a module. If its folder also contains packages, the module counts as a separate package."""
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


@pytest.mark.parametrize("test", TESTS, ids=str)
def test_tests_are_in_the_folder_and_file_of_what_they_test(test):
    """The tests of `plugins/a/b.py` are in `tests/unit/plugins/a/test_b.py`, and those of role `c` in `tests/unit/roles/test_c.py`.

    The tests of `playbooks/a.yml` are in `tests/unit/playbooks/test_a.py`.
    """
    subject = test.with_name(test.name.removeprefix("test_"))
    if subject.parts[0] == "roles":
        assert (REPOSITORY / subject.with_suffix("")).is_dir()
        return
    assert (REPOSITORY / (subject.with_suffix(".yml") if subject.parts[0] == "playbooks" else subject)).is_file()
    if subject.parts[0] == "plugins":
        assert ".".join(subject.with_suffix("").parts[1:]) in imported_by(REPOSITORY / "tests" / "unit" / test)


def test_no_doc_fragment_extends_another():
    """ansible-core ignores the fragments that a fragment extends, so modules name all of their fragments."""
    assert [path.name for path in (PLUGINS / "doc_fragments").glob("*.py") if "extends_documentation_fragment" in path.read_text()] == []


def test_the_action_group_contains_the_modules_that_use_aws():
    """Otherwise, `module_defaults` for the group, such as a profile, do not apply to a module."""
    group = DataLoader().load_from_file(str(REPOSITORY / "meta" / "runtime.yml"))["action_groups"]["aws"]
    modules = {path.stem for path in (PLUGINS / "modules").glob("*.py") if "amazon.aws.common.modules" in path.read_text()}
    assert {each for each in group if isinstance(each, str)} == modules


def test_the_files_to_change_contain_what_the_contributing_guide_says():
    section = (REPOSITORY / "CONTRIBUTING.md").read_text().partition("## Change something")[2].partition("\nEach change")[0]
    found = re.findall(r"`([\w./]+\.py)`(?:: ((?:`\w+`(?:, )?)+))?", section)
    assert len(found) > 20
    folders = (PLUGINS / "module_utils", PLUGINS, REPOSITORY)  # a name without a folder is that of files in several packages
    for file, names in found:
        named = [folder / file for folder in folders] if "/" in file else PLUGINS.rglob(file)
        path = next((path for path in named if path.is_file()), None)
        assert path, f"{file} does not exist"
        for name in re.findall(r"\w+", names):
            definition = rf"^(def |class |(?:\w+, )*){name}\b[\w, ]*[=:(]"
            assert re.search(definition, path.read_text(), re.MULTILINE), f"{file} does not define {name}"


def test_no_test_imports_from_a_test():
    importers = [
        str(path.relative_to(REPOSITORY))
        for folder in ("tests", "extensions/local_cloud/tests")
        for path in (REPOSITORY / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        for name in [*str(node.module).split("."), *(alias.name for alias in node.names if not node.module)]
        if name.startswith("test_")
    ]
    assert importers == []


def test_the_template_of_a_project_has_the_settings_of_the_readme():
    shown = re.search(r"^`ansible\.cfg`.*?^```\w+\n(.*?)^```", (REPOSITORY / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert shown
    assert (REPOSITORY / "examples" / "project" / "ansible.cfg").read_text() == shown[1]


@pytest.mark.parametrize("folder", PROGRAMS, ids=lambda folder: folder.name)
def test_no_function_has_too_many_branches(folder):
    every = [(path, function) for path in folder.rglob("*.py") for block in cc_visit(path.read_text()) for function in functions(block)]
    assert [f"{path}:{each.lineno} {each.name}" for path, each in every if each.complexity > COMPLEXITY] == []


def functions(block: Function | Class) -> Iterator[Function]:
    """Yield the functions in a block that radon has found, at any depth, and the block itself if it is one."""
    if isinstance(block, Function):
        yield block
    for inner in [*block.methods, *block.inner_classes] if isinstance(block, Class) else block.closures:
        yield from functions(inner)


def test_functions_in_functions_count():
    source = """
def outer():
    def middle():
        def inner(): ...
class Outer:
    class Inner:
        def method(self): ...
"""
    assert {each.name for block in cc_visit(source) for each in functions(block)} == {"outer", "middle", "inner", "method"}


@pytest.mark.parametrize("folder", ["plugins", "roles", "tools"])
def test_no_file_is_too_long(folder):
    paths = (REPOSITORY / folder).rglob("*.py")
    assert {str(path): lines for path in paths if (lines := lines_of_code(path.read_text())) > LINES} == {}


def is_text(node: ast.expr) -> bool:
    """Return whether an expression is a string or an f-string that contains a word."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return any(isinstance(part, ast.Constant) and isinstance(part.value, str) and re.search("[A-Za-z]", part.value) for part in parts)


def own_plurals(source: str) -> Iterator[str]:
    """Yield the conditions, also those in the text of a template, that compare with 1 to choose between the forms of words."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.IfExp) and re.search("(==|!=|[<>]) 1\\b", ast.unparse(node.test)):
            # "node" + ("" if number == 1 else "s"), but not ", 3 times" if there are several
            suffixes = {getattr(branch, "value", None) for branch in (node.body, node.orelse)} & {"s", "es"}
            if suffixes or (is_text(node.body) and is_text(node.orelse)):
                yield ast.unparse(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"'\w*' if [^{}]* == 1 else '\w+'", node.value)


# AWS runs this file without other files of the collection.
OWN_PLURALS = "_aws/idle/messages.py"


@pytest.mark.parametrize("folder", ["plugins", "roles", "tools"])
def test_one_function_chooses_the_forms_of_words(folder):
    paths = [path for path in (REPOSITORY / folder).rglob("*.py") if not str(path).endswith(OWN_PLURALS)]
    assert {str(path): found for path in paths if (found := list(own_plurals(path.read_text())))} == {}


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("'node' if number == 1 else 'nodes'", 1),
        ("'jobs' if len(jobs) > 1 else 'job'", 1),
        ("'1 file' if count == 1 else f'{count} files'", 1),
        ("f\"{count} node{'' if count == 1 else 's'}\"", 1),
        ("x = \"{{ count }} {{ 'file' if count == 1 else 'files' }}\"", 1),
        ("'' if count == 1 else f', {count} times'", 0),
        ("'0' if gpus == 1 else f'[0-{gpus - 1}]'", 0),
        ("f'{hours} node-hours' if hours >= 1 else f'{60 * hours} node-minutes'", 0),
        ("name if attempt == 1 else f'attempt{attempt}'", 0),
        ("form(number, 'node', 'nodes')", 0),
    ],
)
def test_own_plurals_are_found(source, count):
    assert len(list(own_plurals(source))) == count


def lines_of_code(source: str) -> int:
    """Return the number of lines of a file without those of its DOCUMENTATION, EXAMPLES and RETURN."""
    assignments = [node for node in ast.parse(source).body if isinstance(node, ast.Assign)]
    documentation = [node for node in assignments if ast.unparse(node.targets[0]) in ("DOCUMENTATION", "EXAMPLES", "RETURN")]
    return len(source.splitlines()) - sum(node.end_lineno - node.lineno + 1 for node in documentation)


def test_documentation_is_no_code():
    assert lines_of_code('DOCUMENTATION = r"""\nmodule: x\n"""\nRETURN = ""\nX = """\n"""\n') == 2


@pytest.mark.parametrize("folder", ["roles", "playbooks"])
def test_no_mapping_has_a_key_twice(folder, monkeypatch):
    """Ansible would show a warning in each run, also if one of the keys comes from a YAML anchor."""
    told = []
    monkeypatch.setattr(Display, "warning", lambda _self, message, **_more: told.append(message))
    for path in sorted((REPOSITORY / folder).rglob("*.yml")):
        DataLoader().load_from_file(str(path), cache="none", trusted_as_template=True)
    assert told == []
