# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
name: nodes
version_added: 0.1.0
short_description: Lists the running nodes of a training cluster
description:
  - Lists the running nodes of one cluster with one paginated C(DescribeInstances) request. If nodes run in a Capacity Block, a
    C(DescribeCapacityReservations) request reads when the block ends.
  - Nodes are the instances that the cluster's Auto Scaling groups have launched. The tag C(aws:autoscaling:groupName), which only AWS
    can set, identifies them. Other tags do not make an instance a node.
  - With O(node_service=emr), nodes are the instances that EMR lists as running nodes of the cluster that the module
    M(deeplearning.cluster.emr_cluster) manages. Their tags C(aws:elasticmapreduce:job-flow-id) and
    C(aws:elasticmapreduce:instance-group-role), which only AWS can set, identify them. Core and task nodes are workers.
  - The plugin checks tags that users can set. For example, if there is a second master, two workers with the same number, or an invalid
    file system ID, the run fails with an error that lists the instance IDs.
  - The groups are C(master), C(workers) and C(trainers). C(trainers) contains all nodes, because the master also trains.
  - Each node keeps its number until its instance is terminated. The master is number 1.
  - The variables of a node describe this node only, so the inventory grows in proportion to the number of nodes. The lookup
    P(deeplearning.cluster.nodes#lookup) returns all nodes.
  - The variable C(deeplearning_inventory_file) of the group C(all) is set to the path of the inventory file. Messages show this path.
  - This file alone decides which cluster a run acts on. If extra variables, C(group_vars), C(host_vars) or another inventory source set
    C(deeplearning_cluster), C(deeplearning_region) or C(deeplearning_node_service) to a different value, the run fails before it sends a
    request to AWS.
  - If the cluster has no nodes, and this controller has configured a cluster with the same name in other regions of the account, the
    variable C(deeplearning_other_regions) of the group C(all) contains these regions.
  - The variable C(deeplearning_account) of the group C(all) is set to the number of the AWS account that the credentials belong to. The
    plugin reads this number once per run with C(sts:GetCallerIdentity), which needs no permission.
  - SSH reaches workers through the master. From inside the VPC or through Session Manager, SSH reaches all nodes directly. SSH always
    checks host keys by instance ID, so that a new instance with a reused address is not mistaken for the previous instance. Settings for
    all hosts, such as C(host_key_checking=False) or C(ssh_args) in C(ansible.cfg), do not change that. The variable C(ansible_ssh_args)
    would, and is therefore refused.
  - The plugin reads files whose names end in C(nodes.yml) or C(nodes.yaml), and other YAML files with the key C(plugin).
  - If the file cannot be read or the nodes cannot be listed, the playbooks of this collection fail and show the cause. If every playbook
    run should end immediately in this case, set C(any_unparsed_is_failed = true) in the section C(inventory) of C(ansible.cfg).
options:
  plugin:
    description: Name of this plugin.
    type: str
    required: true
    choices: [deeplearning.cluster.nodes]
  cluster:
    description: Name of the cluster.
    type: str
    required: true
  region:
    description: Region of the cluster.
    type: str
    required: true
  node_service:
    description:
      - AWS service that launches the cluster's nodes.
      - With V(auto_scaling), the nodes are those that the playbook C(deeplearning.cluster.provision) launches. With V(emr), they are those
        that the playbook C(deeplearning.cluster.emr) launches.
    type: str
    choices: [auto_scaling, emr]
    default: auto_scaling
  user:
    description:
      - Login user of the image.
      - The default is V(ubuntu), or V(hadoop) with O(node_service=emr).
    type: str
  private_key_file:
    description: File with the private key of the EC2 key pair. By default, SSH uses its default keys.
    type: path
  ssh_directory:
    description:
      - Directory for the cluster's known host keys.
      - The default is C(~/.ssh/deeplearning/ACCOUNT/REGION/CLUSTER).
    type: path
  connection_path:
    description:
      - How SSH reaches the nodes.
      - V(jump) connects to the master, and through the master to the workers. This path is the default if the master has a public address.
      - V(direct) connects to the private addresses, for example from inside the VPC, through a VPN or through VPC peering. This path is the
        default if the master has no public address.
      - V(session_manager) connects through AWS Systems Manager, so that the nodes do not have to be reachable over the network. The AWS
        CLI and its Session Manager plugin must be installed on the controller, and the cluster needs O(ignore:session_manager=true) or an
        adopted role that allows it. The AWS CLI uses its own credentials, and gets the region and O(profile) from this file.
    type: str
    choices: [jump, direct, session_manager]
extends_documentation_fragment:
  - inventory_cache
  - amazon.aws.boto3
  - amazon.aws.common.plugins
  - amazon.aws.assume_role.plugins
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
"""

EXAMPLES = r"""
plugin: deeplearning.cluster.nodes
cluster: bert
region: us-east-1
---
# Connect from anywhere to nodes without public addresses
plugin: deeplearning.cluster.nodes
cluster: bert
region: us-east-1
connection_path: session_manager
---
# The nodes of an EMR cluster
plugin: deeplearning.cluster.nodes
cluster: bert
region: us-east-1
node_service: emr
"""

import difflib
import gc
import os
import re
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

from ansible import constants, context
from ansible.errors import AnsibleError, AnsibleParserError
from ansible.inventory.host import Host
from ansible.plugins.loader import connection_loader
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible.vars.plugins import get_vars_from_inventory_sources
from ansible_collections.amazon.aws.plugins.plugin_utils.inventory import AWSInventoryBase

from ..module_utils._aws.client import CONNECT_TIMEOUT, ClusterError, sdk_problem
from ..module_utils._aws.error_codes import REJECTED, error_code
from ..module_utils._aws.error_messages import NO_CREDENTIALS, connection_advice, denial_advice, rejection
from ..module_utils._aws.node_group.inventory import Node, nodes
from ..module_utils._aws.node_names import MASTER, WORKERS
from ..module_utils._aws.node_service import NodeService
from ..module_utils._aws.node_services import NODE_SERVICES
from ..module_utils._aws.regions import valid_region
from ..module_utils._aws.response_members import limit_members
from ..module_utils._aws.storage.kinds import TAGS
from ..plugin_utils.confusable_characters import problem_in_shell_words
from ..plugin_utils.inventory_nodes import DECIDED, other_value
from ..plugin_utils.ssh_connections import DIRECT, JUMP, SshConnections
from ..plugin_utils.suggested_commands import short_path

try:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError
except ImportError:
    pass  # AWSInventoryBase reports the missing library

T = TypeVar("T")
PLUGIN = re.compile(r"^plugin:\s*(['\"]?)deeplearning\.cluster\.nodes\1\s*(?:#.*)?$", re.MULTILINE)
TRAINERS = "trainers"
SSH_ARGUMENTS = "ansible_ssh_args"
# The settings of Ansible that contain arguments of ssh, and the variables that can replace them.
SSH_SETTINGS = ("ssh_args", "ssh_common_args", "ssh_extra_args")
SSH_VARIABLES = {f"ansible_{name}" for name in SSH_SETTINGS}
# Clients by inventory file, region and service, each with the time of its creation. A playbook run that refreshes the inventory reuses
# these clients, because botocore takes longer to create a client than AWS takes to answer. After the time limit in seconds, a new client
# reads the credentials again, which another program may have renewed.
CLIENTS: dict[tuple[str, str, str], tuple[float, Any]] = {}
CLIENT_SECONDS = 300
# The accounts by inventory file and region. A run reads its account once.
ACCOUNTS: dict[tuple[str, str], str] = {}
# The options that select credentials other than the default credentials, which the playbooks' modules use.
CREDENTIALS = ("access_key", "assume_role_arn", "profile", "secret_key", "session_token")


def names_plugin(path: str) -> bool:
    """Return whether a YAML file has the key `plugin` with the name of this plugin."""
    if not path.endswith((".yml", ".yaml")):
        return False
    try:
        return PLUGIN.search(Path(path).read_text(encoding="utf-8")) is not None
    except (OSError, ValueError):
        return False


def configured_ssh_args() -> str:
    """Return the setting `ssh_args` in `ansible.cfg` or in ANSIBLE_SSH_ARGS, or Ansible's default.

    Raises AnsibleParserError if this or another setting with arguments of ssh contains a confusable character.
    """
    connection_loader.get("ssh", class_only=True)  # reads the definitions of the plugin's settings
    settings = {
        name: str(constants.config.get_config_value(name, plugin_type="connection", plugin_name="ssh") or "") for name in SSH_SETTINGS
    }
    for name, value in settings.items():
        _refuse_confusable_characters(name, value)
    return settings["ssh_args"]


def _refuse_confusable_characters(name: str, value: str) -> None:
    problem = problem_in_shell_words(value)
    if problem:
        raise AnsibleParserError(f"{name}: {problem}")


class _Reader:
    """Queries AWS with the clients of the inventory plugin."""

    def __init__(self, cluster: str, connect: Callable[[str], Any]) -> None:
        self.cluster, self.client = cluster, lru_cache(connect)

    def retrieve(self, service: str, operation: str, key: str, **arguments: Any) -> list[Any]:
        pages = self.client(service).get_paginator(operation).paginate(**arguments)
        return [item for page in pages for item in page[key]]


class InventoryModule(AWSInventoryBase):
    NAME = "deeplearning.cluster.nodes"
    INVENTORY_FILE_SUFFIXES = ("nodes.yml", "nodes.yaml")

    def verify_file(self, path: str) -> bool:
        """Return whether the file is for this plugin: its name ends in one of the suffixes, or its key `plugin` names this plugin."""
        return bool(super().verify_file(path)) or names_plugin(path)

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        try:
            self._parse(inventory, loader, path, cache)
        except AnsibleError as error:
            message = f"{path}: {error.message}"
            # Ansible continues without hosts, but the playbooks of this collection fail.
            inventory.set_variable("all", "deeplearning_inventory_error", message)
            # Ansible would also end the run, but would show this error in the middle of its own messages.
            if constants.INVENTORY_ANY_UNPARSED_IS_FAILED and context.CLIARGS:
                Display().error(message)
                raise SystemExit(1) from None
            raise
        # Ansible forks a process for each task and host. Without this call, each garbage collection there would examine, and thereby copy,
        # all objects that Ansible, the SDK and the inventory consist of, in almost half of the time of a task that does nothing.
        gc.freeze()

    def _parse(self, inventory: Any, loader: Any, path: str, cache: bool) -> None:
        given = loader.load_from_file(path, cache="none")
        self._check_options(given)
        super().parse(inventory, loader, path, cache=cache)
        if problem := sdk_problem():
            raise AnsibleParserError(problem)
        cluster, region = self.get_option("cluster"), self.get_option("region")
        for group in (MASTER, WORKERS, TRAINERS):
            self.inventory.add_group(group)
        for group in (MASTER, WORKERS):
            self.inventory.add_child(TRAINERS, group)
        decided = {f"deeplearning_{option}": self.get_option(option) for option in ("cluster", "region", "node_service")}
        self._refuse_other_values(path, decided, [*self.inventory.groups.values(), Host("localhost")])
        decided["deeplearning_account"] = account = self._account(path, region, given)
        self._refuse_other_values(path, decided, [])
        # Playbooks that run on the controller need these variables even if there are no hosts yet
        for name, value in decided.items():
            self.inventory.set_variable("all", name, value)
        DECIDED.update(decided)
        self.inventory.set_variable("all", "deeplearning_inventory_file", short_path(path))
        self.inventory.set_variable("all", "deeplearning_ssh_directory", self._ssh_directory())
        if self.get_option("private_key_file"):
            self.inventory.set_variable("all", "deeplearning_private_key_file", self._private_key_file())
        # EC2 images have Python at this path. Interpreter discovery would cost a round trip to every host in every run. group_vars can
        # override this
        self.inventory.set_variable(TRAINERS, "ansible_python_interpreter", "/usr/bin/python3")
        # sshd may start shortly after the instance is in service
        self.inventory.set_variable(TRAINERS, "ansible_ssh_retries", 5)

        live = self._cached_nodes(path, cache, account)
        if live is None:
            live = self._with_capacity_ends(path, region, self._nodes(path, cluster, region))
        if self.get_option("cache"):
            self.update_cached_result(path, cache, [account, [asdict(node) for node in live]])
        self._populate(live)
        if not live and (others := self._other_regions()):
            self.inventory.set_variable("all", "deeplearning_other_regions", others)
        self._refuse_other_values(path, decided, [*self.inventory.hosts.values()])

    def _cached_nodes(self, path: str, cache: bool, account: str) -> list[Node] | None:
        """Return the nodes in the cache, or None if it has none of this account, or those of another version of the collection."""
        _is_cached, answer = self.get_cached_result(path, cache)
        kept_of, cached = answer or ("", [])
        try:
            return [Node(**node) for node in cached] if kept_of == account else None
        except TypeError:
            return None

    def _refuse_other_values(self, path: str, decided: dict[str, str], entities: list[Any]) -> None:
        """Raise AnsibleParserError if anything gives a variable that this inventory file decides a different value, or arguments of ssh
        with a confusable character.

        `entities` are the groups and hosts whose variable files are read. Templates cannot be evaluated before a task runs.
        """
        given = [("-e", load_extra_vars(self.loader)), ("another inventory source", self.inventory.groups["all"].vars)]
        # Usually, no file gives any of these variables. One request for all entities then answers what a thousand would.
        if self._file_variables(path, entities).keys() & (SSH_VARIABLES | decided.keys()):
            given += [(f"the variables of {entity.name}", self._file_variables(path, [entity])) for entity in entities]
        for where, variables in given:
            if SSH_ARGUMENTS in variables:
                raise AnsibleParserError(
                    f"{SSH_ARGUMENTS}: this variable, set by {where}, would replace the arguments with which SSH verifies the nodes' host "
                    "keys. Rename it to ansible_ssh_common_args, or set ssh_args in ansible.cfg."
                )
            for name in SSH_VARIABLES & variables.keys():
                _refuse_confusable_characters(name, str(variables[name]))
            for name in decided.keys() & variables.keys():
                if "{{" not in str(variables[name]) and (problem := other_value(name, variables[name], decided, where, short_path(path))):
                    raise AnsibleParserError(problem)

    def _file_variables(self, path: str, entities: list[Any]) -> dict[str, Any]:
        sources = [*dict.fromkeys((path, *(context.CLIARGS.get("inventory") or ())))]
        stages = (get_vars_from_inventory_sources(self.loader, sources, entities, stage) for stage in ("inventory", "task"))
        return {name: value for variables in stages for name, value in variables.items()}

    def _account(self, path: str, region: str, given: dict[str, Any]) -> str:
        if (path, region) not in ACCOUNTS:
            account = str(self._answer(region, lambda: self._client(path, valid_region(region), "sts").get_caller_identity()["Account"]))
            self._check_credentials(given, region, account)
            ACCOUNTS[path, region] = account
        return ACCOUNTS[path, region]

    def _check_credentials(self, given: dict[str, Any], region: str, account: str) -> None:
        """Raise AnsibleParserError if options of the file select another account than the default credentials.

        The playbooks' modules use the default credentials. Without default credentials, the modules fail by themselves.
        """
        definitions = constants.config.get_configuration_definitions("inventory", self._load_name)
        own = [option for option in CREDENTIALS if {option, *definitions[option].get("aliases", [])} & given.keys()]
        try:
            other = own and boto3.session.Session().client("sts", region_name=region).get_caller_identity()["Account"]
        except (BotoCoreError, ClientError):
            return
        if own and other != account:
            raise AnsibleParserError(
                f"{own[0]}: these credentials belong to account {account}, but the modules of playbooks use the default credentials, which "
                f"belong to account {other}. Remove {' and '.join(own)}, and set AWS_PROFILE or other variables of the AWS SDK."
            )

    def _check_options(self, given: Any) -> None:
        """Raise AnsibleParserError for unknown and missing options. Ansible ignores unknown options, so a misspelled one has no effect."""
        if not isinstance(given, dict):
            return  # the superclass reports invalid contents of the file
        definitions = constants.config.get_configuration_definitions("inventory", self._load_name)
        known = {"plugin", *definitions, *(alias for entry in definitions.values() for alias in entry.get("aliases", []))}
        for name in given:
            if name not in known:
                words = [option for option in sorted(known) if option in str(name).split("_")]  # such as `user` in `login_user`
                similar = difflib.get_close_matches(str(name), known, n=1) or words
                advice = f"Did you mean '{similar[0]}'?" if similar else f"Use one of {', '.join(sorted(definitions))}."
                raise AnsibleParserError(f"'{name}' is not an option of deeplearning.cluster.nodes. {advice}")
        for name, example in (("cluster", "bert"), ("region", "us-east-1")):
            if not given.get(name):
                raise AnsibleParserError(f"{name}: missing. Specify a value, for example {name}: {example}.")

    @property
    def _service(self) -> NodeService:
        return NODE_SERVICES[self.get_option("node_service")]

    def _nodes(self, path: str, cluster: str, region: str) -> list[Node]:
        reader = _Reader(cluster, partial(self._client, path, region))
        return self._answer(region, lambda: nodes(cluster, self._service.instances(reader), self._service))

    def _answer(self, region: str, request: Callable[[], T]) -> T:
        """Return the answer to a request. Raise AnsibleParserError with a message for the user if the request fails."""
        try:
            return request()
        except NoCredentialsError:
            raise AnsibleParserError(NO_CREDENTIALS) from None
        except (ValueError, ClusterError) as error:
            raise AnsibleParserError(str(error)) from None
        except (BotoCoreError, ClientError) as error:
            if error_code(error) in REJECTED:
                raise AnsibleParserError(rejection(error, region)) from None
            cluster = self.get_option("cluster")
            advice = connection_advice(error) or denial_advice(error)
            raise AnsibleParserError(f"Cannot list the nodes of cluster {cluster} in {region}: {error}{advice}") from None

    def _with_capacity_ends(self, path: str, region: str, live: list[Node]) -> list[Node]:
        """Return the nodes with the times at which their Capacity Blocks end. Without Capacity Blocks, send no request."""
        blocks = sorted({node.capacity_block for node in live if node.capacity_block})
        if not blocks:
            return live
        try:
            answer = self._client(path, region, "ec2").describe_capacity_reservations(CapacityReservationIds=blocks)
        except (BotoCoreError, ClientError) as error:
            Display().warning(f"Cannot read when {', '.join(blocks)} ends, so jobs cannot save a checkpoint before then: {error}")
            return live
        ends = {item["CapacityReservationId"]: item["EndDate"] for item in answer["CapacityReservations"] if item.get("EndDate")}
        return [replace(node, capacity_end=ends[node.capacity_block].timestamp()) if node.capacity_block in ends else node for node in live]

    def _client(self, path: str, region: str, service: str) -> Any:
        key, now = (path, region, service), time.monotonic()
        began, client = CLIENTS.get(key, (0.0, None))
        if client is None or now - began > CLIENT_SECONDS:
            client = self.client(service, region=region, config={"connect_timeout": CONNECT_TIMEOUT})
            limit_members(client, service)
            CLIENTS[key] = now, client
        return client

    def _populate(self, live: list[Node]) -> None:
        connections = self._connections(next((node for node in live if node.group == MASTER), None))
        for node in live:
            self.inventory.add_host(node.name, group=node.group)
            for name, value in {**_facts(node), **connections.variables(node)}.items():
                self.inventory.set_variable(node.name, name, value)

    def _connections(self, master: Node | None) -> SshConnections:
        return SshConnections(
            path=self.get_option("connection_path") or (JUMP if master and master.public_ip else DIRECT),
            user=str(self.get_option("user") or self._service.login_user),
            private_key_file=self._private_key_file() if self.get_option("private_key_file") else None,
            ssh_directory=self._ssh_directory(),
            master=master,
            region=self.get_option("region"),
            profile=self.get_option("profile"),
            ssh_args=configured_ssh_args(),
        )

    def _other_regions(self) -> list[str]:
        """Return the other regions in which this controller has configured a cluster with this name, in the same account."""
        folder = Path.home() / ".ssh" / "deeplearning" / DECIDED["deeplearning_account"]
        known = folder.glob(f"*/{DECIDED['deeplearning_cluster']}/known_hosts")
        return sorted({path.parts[-3] for path in known} - {DECIDED["deeplearning_region"]})

    def _ssh_directory(self) -> str:
        given = self.get_option("ssh_directory")
        place = () if given else (DECIDED[f"deeplearning_{part}"] for part in ("account", "region", "cluster"))
        return os.path.expanduser(given or os.path.join("~", ".ssh", "deeplearning", *place))

    def _private_key_file(self) -> str:
        return os.path.expanduser(self.get_option("private_key_file"))


def _facts(node: Node) -> dict[str, Any]:
    facts = {
        "deeplearning_number": node.number,
        "deeplearning_hostname": node.hostname,
        "deeplearning_private_ip": node.private_ip,
        "deeplearning_instance_id": node.instance_id,
        "deeplearning_instance_type": node.instance_type,
        "deeplearning_zone": node.zone,
        "deeplearning_launched_at": node.launched_at,
        "deeplearning_market": node.market,
        "deeplearning_has_efa": node.efa,
        "deeplearning_efa_devices": node.efa_devices,
        "deeplearning_mounts": node.mounts,
        **({"deeplearning_volumes": node.volumes} if node.volumes else {}),
    }
    facts.update({f"deeplearning_{tag.variable}": tag.value(node.tags) for tag in TAGS if tag.variable and tag.is_told(node.tags)})
    if node.capacity_end:
        facts["deeplearning_capacity_end"] = node.capacity_end
    if node.public_ip:
        facts["deeplearning_public_ip"] = node.public_ip
    return facts
