# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.inventory import Node
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.ssh_connections import DIRECT, SshConnections


def test_nodes_of_two_clusters_with_the_same_address_share_no_open_connection():
    """Ansible's own name for the socket of an open connection depends only on the address, the port and the user."""
    found = []
    for instance_id in ("i-0123456789abcdef0", "i-0fedcba9876543210"):
        node = Node(**{**dict.fromkeys(Node.__dataclass_fields__, "x"), "instance_id": instance_id, "private_ip": "10.0.0.4"})
        connections = SshConnections(DIRECT, "ubuntu", None, "/ssh", node, "us-east-1")
        found.append(connections.variables(node))
    assert found[0]["ansible_host"] == found[1]["ansible_host"]
    paths = [variables["ansible_control_path"] % {"directory": "/cp"} for variables in found]
    assert paths == ["/cp/i-0123456789abcdef0-%r", "/cp/i-0fedcba9876543210-%r"]
