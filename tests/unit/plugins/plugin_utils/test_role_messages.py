"""Tests of the messages of roles that set up hosts and stage data sets."""

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import role_messages


@pytest.mark.parametrize(
    ("name", "facts", "start", "end"),
    [
        (
            "injected_facts",
            (),
            "inject_facts_as_vars: this setting is enabled, so facts returned by a node could override any variable. Set ANSIBLE_INJECT",
            "ansible.cfg:\n[defaults]\ninject_facts_as_vars = false",
        ),
        ("missing_authority", ("demo", "denied."), "Cannot get the certificate authority of cluster demo: ", "demo: denied."),
        ("missing_authority", ("demo", ""), "Cannot get the certificate authority of cluster demo: ", "demo: no reason given."),
        (
            "missing_master",
            ("slurm", "m"),
            "slurm: the master (m) takes no part in this run",
            " Include the master in --limit, and check that it is reachable.",
        ),
        ("missing_master", ("sge", ""), "sge: the master (no host has deeplearning_number 1) takes no part in this run", ""),
        ("missing_key", ("munge_key: denied.",), "munge_key: denied.", ""),
        ("missing_key", ("",), "munge_key: the host returned no key. Check the host.", ""),
        (
            "missing_programs",
            ("slurm", "w1", ["a", "b"]),
            "slurm: w1 still lacks the programs of a, b, although",
            " Reinstall these packages.",
        ),
        (
            "leaving_nodes",
            ("SGE", ["w1", "w2"]),
            "These nodes left the cluster, but jobs are still running on them: w1, w2. SGE does not start",
            " new jobs on these nodes. Run the role again when the running jobs have ended.",
        ),
        (
            "missing_tensorboard",
            ("/p", "m"),
            "tensorboard_python: /p does not exist on m or has no TensorBoard. Install the package",
            " there, or set tensorboard_python to another path.",
        ),
        ("missing_secret_path", ("/etc/t", "m"), "/etc/t: the file on m contains no secret path.", " Delete the file."),
        (
            "silent_tensorboard",
            (6006, "m", "port in use"),
            "TensorBoard does not respond on port 6006 of m.\nIf another program uses this",
            "The last lines of TensorBoard's log:\nport in use",
        ),
        (
            "closed_tunnel",
            (6006, "m", "refused"),
            "tensorboard_local_port: cannot open a tunnel from port 6006 of this machine to m. If",
            "ssh reports: refused",
        ),
        ("address_of_tensorboard", ("/j", 6006, "/x"), "TensorBoard shows /j at http://127.0.0.1:6006/x/ through a tunnel.", ""),
        ("staged_dataset", ("coco", "/efs/coco"), "coco is at /efs/coco.", ""),
    ],
)
def test_a_message_begins_with_its_subject_and_ends_with_advice_or_the_output_of_other_programs(name, facts, start, end):
    told = getattr(role_messages, name)(*facts)
    assert (told[: len(start)], told[len(told) - len(end) :]) == (start, end)
