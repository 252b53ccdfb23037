"""Tests of the messages of roles that set up hosts and stage data sets."""

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import role_messages


@pytest.mark.parametrize(
    ("name", "facts", "told"),
    [
        ("injected_facts", (), "inject_facts_as_vars: this setting is enabled, so facts returned by a node could override any variable."),
        ("missing_authority", ("demo", "denied."), "Cannot get the certificate authority of cluster demo: denied."),
        ("missing_authority", ("demo", ""), "Cannot get the certificate authority of cluster demo: no reason given."),
        ("missing_master", ("slurm", "m"), "slurm: the master (m) takes no part in this run, but it distributes the configuration."),
        ("missing_master", ("sge", ""), "sge: the master (no host has deeplearning_number 1) takes no part in this run"),
        ("missing_key", ("munge_key: denied.",), "munge_key: denied."),
        ("missing_key", ("",), "munge_key: the host returned no key. Check the host."),
        ("missing_programs", ("slurm", "w1", ["munge", "slurmd"]), "slurm: w1 still lacks the programs of munge, slurmd, although the"),
        (
            "leaving_nodes",
            ("SGE", ["w1", "w2"]),
            "These nodes left the cluster, but jobs are still running on them: w1, w2. SGE does not start",
        ),
        ("missing_tensorboard", ("/p", "m"), "tensorboard_python: /p does not exist on m or has no TensorBoard. Install the package"),
        ("missing_secret_path", ("/etc/t", "m"), "/etc/t: the file on m contains no secret path. Delete the file."),
        ("silent_tensorboard", (6006, "m", "port in use"), "TensorBoard does not respond on port 6006 of m.\nIf another program uses this"),
        ("closed_tunnel", (6006, "m", "refused"), "tensorboard_local_port: cannot open a tunnel from port 6006 of this machine to m. If"),
        ("address_of_tensorboard", ("/j", 6006, "/x"), "TensorBoard shows /j at http://127.0.0.1:6006/x/ through a tunnel."),
        ("staged_dataset", ("coco", "/efs/coco"), "coco is at /efs/coco."),
    ],
)
def test_a_message_begins_with_its_subject(name, facts, told):
    assert getattr(role_messages, name)(*facts).startswith(told)


def test_the_output_of_other_programs_comes_last():
    assert role_messages.silent_tensorboard(6006, "m", "port in use").endswith("The last lines of TensorBoard's log:\nport in use")
    assert role_messages.closed_tunnel(6006, "m", "refused").endswith("ssh reports: refused")
    assert role_messages.injected_facts().endswith("ansible.cfg:\n[defaults]\ninject_facts_as_vars = false")
