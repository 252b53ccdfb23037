"""Tests of the files that the module describes."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.managed_files import FileState, HostFiles
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.worker_metadata import converge

PARAMS = {
    "cluster": "demo",
    "number": 1,
    "workers": [
        {"number": 2, "name": "demo-worker2", "address": "10.0.1.30"},
        {"number": 1, "name": "demo-master", "address": "10.0.0.4"},
    ],
    "user": "ubuntu",
    "efs_mount": "/efs",
    "directory": "/opt/deeplearning",
    "worker_ip_file": None,
}


@pytest.mark.parametrize(
    ("content", "lines"), [("names", ["deeplearning-worker1", "deeplearning-worker2"]), ("addresses", ["10.0.0.4", "10.0.1.30"])]
)
def test_the_list_of_workers_has_names_or_addresses(content, lines):
    described = {file.path: file.content for file in converge.described({**PARAMS, "workers_content": content}, 0, HostFiles())}
    assert described["/opt/deeplearning/workers"].splitlines() == lines


def test_a_further_file_of_addresses_belongs_to_the_user():
    params = {**PARAMS, "workers_content": "names", "worker_ip_file": "/home/ubuntu/worker_ip_file"}
    described = {file.path: file for file in converge.described(params, 0, HostFiles())}
    addresses = described["/home/ubuntu/worker_ip_file"]
    assert (addresses.content, addresses.owner) == ("10.0.0.4\n10.0.1.30\n", "ubuntu")
    assert described["/opt/deeplearning/workers"].content.startswith("deeplearning-worker1\n")


class OtherHost(HostFiles):
    """A host on which /etc/environment is the only file."""

    def __init__(self, environment):
        self.environment = environment

    def find(self, path):
        return self.environment if path == converge.ENVIRONMENT else None

    def exists(self, path):
        return self.find(path) is not None


@pytest.mark.parametrize(
    ("found", "others", "mode"),
    [(FileState("http_proxy=http://me:secret@proxy", 0o640, 0, 0), "http_proxy=http://me:secret@proxy\n", 0o640), (None, "", 0o644)],
)
def test_other_lines_of_the_environment_stay_and_are_not_shown(found, others, mode):
    described = {file.path: file for file in converge.described({**PARAMS, "workers_content": "names"}, 0, OtherHost(found))}
    environment = described["/etc/environment"]
    assert environment.content.startswith(others + "# BEGIN deeplearning.cluster\nDEEPLEARNING_WORKERS_COUNT=2\n")
    assert (environment.mode, environment.owner) == (mode, "root")
    assert environment.shown(environment.content) == environment.content.removeprefix(others)
    gone = converge.environment_file(OtherHost(FileState(environment.content, mode, 0, 0)), "")
    assert gone.content == others


class Managed(HostFiles):
    """A host whose user data lets cloud-init write /etc/hosts at each boot, from a template."""

    TEMPLATE = "## template:jinja\n{#\nmanage_etc_hosts\n-#}\n127.0.1.1 {{fqdn}} {{hostname}}\n127.0.0.1 localhost\n"

    def __init__(self, user_data):
        self.content = {
            converge.USER_DATA: user_data,
            converge.TEMPLATES[0]: self.TEMPLATE,
            converge.HOSTS: "127.0.0.1 localhost\n127.0.1.1 demo-master\n",
        }

    def find(self, path):
        return FileState(self.content[path], 0o644, 0, 0) if path in self.content else None

    def exists(self, path):
        return path in self.content


BLOCK_BEGIN = "# BEGIN deeplearning.cluster\n10.0.0.4 demo-master deeplearning-worker1 deeplearning-master\n"


@pytest.mark.parametrize(
    ("user_data", "mode"),
    [
        ("#cloud-config\nmanage_etc_hosts: true\n", "true"),
        ("#cloud-config\n'manage_etc_hosts': \"template\"\n", "template"),
        ("#cloud-config\nmanage_etc_hosts: localhost\n", "localhost"),
        ("#cloud-config\nmanage_etc_hosts: false\n", ""),
        ("#cloud-config\n# manage_etc_hosts: true\n", ""),
    ],
)
def test_user_data_overrides_the_files_of_cloud_init(user_data, mode):
    host = Managed(user_data)
    assert converge.managed_hosts(host) == mode
    described = {file.path: file for file in converge.described({**PARAMS, "workers_content": "names"}, 0, host)}
    assert described[converge.HOSTS].content.startswith(f"127.0.0.1 localhost\n{BLOCK_BEGIN}")
    assert described[converge.HOSTS].replaced == ["127.0.1.1 demo-master"]
    assert (converge.TEMPLATES[0] in described) is (mode in ("true", "template"))
    if converge.TEMPLATES[0] in described:
        template = described[converge.TEMPLATES[0]]
        assert template.content.startswith(Managed.TEMPLATE.replace("127.0.1.1 {{fqdn}} {{hostname}}\n", "") + BLOCK_BEGIN)
        assert template.replaced == ["127.0.1.1 {{fqdn}} {{hostname}}"]
