"""A bucket prefix that is mounted on a real host with the credentials of the host's role."""

from __future__ import annotations

import subprocess

import ansible_commands
import pytest
import yaml
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.instance_role import definition as role
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.definition import user_data
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.regions import partition_of
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.bucket.component import statements
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.shared_storage import boot, mounts
from local_cloud.testing import BareHost, LocalCloud, unused_range, wait_until

from .aws_instances import REGION, launch

BUCKET = "sets-of-images"
SOURCE = f"s3://{BUCKET}/images"
OBJECTS = {"images/cats/1.jpg": b"cat", "images/labels.txt": b"1 cat\n", "private/notes.txt": b"not for nodes"}
PATH = "/data"


class Node:
    """One instance that mounts the prefix at boot, and plays that apply the role to this instance."""

    def __init__(self, cloud, folder, host):
        self.cloud, self.folder, self.host = cloud, folder, host

    def play(self, *mounted, status=0, **variables):
        """Run the role and return the number of changes, or the output if the expected status is not 0."""
        options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
        variables = {
            "ansible_host": self.host.private_ip,
            "ansible_user": "ubuntu",
            "ansible_ssh_private_key_file": str(self.host.key_file),
            "ansible_ssh_common_args": options,
            "ansible_python_interpreter": "/usr/bin/python3",
            "deeplearning_region": REGION,
            "deeplearning_mounts": [{"kind": "bucket", "source": source, "path": path} for source, path in mounted],
            **variables,
        }
        inventory, playbook = self.folder / "inventory.yml", self.folder / "play.yml"
        inventory.write_text(yaml.safe_dump({"all": {"hosts": {"node": variables}}}))
        playbook.write_text(yaml.safe_dump([{"hosts": "node", "gather_facts": False, "roles": ["deeplearning.cluster.shared_storage"]}]))
        command = ["ansible-playbook", "-i", str(inventory), str(playbook)]
        done = ansible_commands.run(command, self.cloud.environment, self.folder)
        assert done.returncode == status, done.stdout + done.stderr
        return " ".join(done.stdout.split()) if status else int(done.stdout.split("changed=")[1].split()[0])


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bucket")
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    with unused_range() as network, LocalCloud(folder / "home") as cloud:
        if not cloud.cloud.setup.fuse:
            pytest.skip("This machine lets no container use /dev/fuse.")
        s3 = cloud.client("s3")
        for name in (BUCKET, "of-others"):
            s3.create_bucket(Bucket=name)
        for name, content in OBJECTS.items():
            s3.put_object(Bucket=BUCKET, Key=name, Body=content)
        policy = role.policy(REGION, [], [], statements(SOURCE, partition_of(REGION)))
        boot_script = user_data(boot.cloud_config([mounts.bucket(SOURCE, PATH)], "ubuntu"))
        (launched,) = launch(cloud, key, network, policy, UserData=boot_script)
        host = BareHost(launched["InstanceId"], launched["PrivateIpAddress"], "", key)
        host.ssh("cloud-init status --wait")
        yield Node(cloud, folder, host)


def test_a_boot_mounts_the_prefix_for_all_users_to_read(node):
    wait_until(lambda: node.host.ssh(f"mountpoint -q {PATH}", check=False).returncode == 0)
    assert node.host.ssh(f"cd {PATH} && find . -type f | sort").stdout.split() == ["./cats/1.jpg", "./labels.txt"]
    assert node.host.ssh(f"sudo -u nobody cat {PATH}/cats/1.jpg").stdout == "cat"
    assert "Read-only file system" in node.host.ssh(f"sudo touch {PATH}/new", check=False).stderr
    (options,) = [line.split()[3] for line in node.host.ssh("cat /proc/mounts").stdout.splitlines() if f" {PATH} " in line]
    assert {"ro", "nosuid", "nodev"} <= set(options.split(","))
    node.cloud.client("s3").put_object(Bucket=BUCKET, Key="images/later.txt", Body=b"new")
    # The mount shows the bucket itself, not a copy. The client caches the contents of a folder for one second.
    wait_until(lambda: node.host.ssh(f"cat {PATH}/later.txt", check=False).stdout == "new", timeout=20)


def test_there_are_no_keys(node):
    found = node.host.ssh(
        r"sudo grep -rlE 'A[KS]IA[A-Z0-9]{16}|aws_secret' /etc /root /home /usr/local /run/systemd 2>/dev/null", check=False
    )
    assert found.stdout == ""


@pytest.mark.exhaustive
def test_the_role_finds_nothing_to_do_and_mends_what_is_damaged(node):
    assert node.play((SOURCE, PATH)) == 0
    node.host.ssh(f"sudo umount {PATH} && sudo sed -i '\\#{PATH}#d' /etc/fstab")
    assert node.play((SOURCE, PATH)) == 1
    assert node.host.ssh(f"cat {PATH}/labels.txt").stdout == "1 cat\n"
    assert node.host.ssh(f"grep -c ' {PATH} mount-s3 ro,' /etc/fstab").stdout.strip() == "1"
    assert node.play((SOURCE, PATH)) == 0


@pytest.mark.parametrize(
    ("source", "message"),
    [(f"s3://{BUCKET}/private", "IAM role must be allowed"), ("s3://of-others", "IAM role must be allowed")],
)
def test_what_the_role_of_the_nodes_may_not_read_is_not_mounted(node, source, message):
    assert message in node.play((source, "/other"), status=2, shared_storage_timeout=2)
    assert node.host.ssh("mountpoint -q /other", check=False).returncode != 0


def test_another_bucket_is_not_put_in_place_of_one_that_is_mounted(node):
    assert "instead of s3://of-others/ as mount-s3" in node.play(("s3://of-others", PATH), status=2)
    assert node.host.ssh(f"cat {PATH}/labels.txt").stdout == "1 cat\n"


def test_it_goes_away(node):
    assert node.play((SOURCE, PATH), shared_storage_state="absent") > 0
    assert node.play((SOURCE, PATH), shared_storage_state="absent") == 0
    assert node.host.ssh(f"mountpoint -q {PATH} || grep {PATH} /etc/fstab", check=False).returncode != 0
