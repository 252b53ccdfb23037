"""SSH certificates, tested with real ssh on real hosts that lie, leave, are removed or come back late."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.deeplearning.cluster.plugins.action import ssh_files as action
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.ssh_authority.authority import generate, parameter_name, public_key
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.ssh_trust import certificates
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.ssh_trust.converge import check
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import ssh_files
from hosts.project import CLUSTER, COLLECTION, Project, changes
from local_cloud.testing import LocalCloud, bare_hosts

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
OTHER = KEY.replace("OMqq", "ATTA")
NODE = {"instance_id": "i-0bbb", "address": "10.0.0.5", "user": "ubuntu"}
ARGUMENTS: dict[str, Any] = {"authority": "", "forget_authority": False, "host_keys": [], "answers": {}, "revoked": [], "former": None}
POISON = f"{KEY}\ni-0ccc {OTHER}\n@cert-authority * {OTHER}"


def learn(text: str, **changed: Any) -> str:
    """Return the known_hosts file that the action derives from an existing one, for a cluster of one node."""
    nodes = ssh_files.read_nodes({"bert-worker2": NODE})
    known, gone = action.learn(ssh_files.parse_known_hosts(text), nodes, {**ARGUMENTS, **changed})
    return ssh_files.known_hosts_file(known, ["i-0bbb", *gone])


@pytest.mark.parametrize("answer", [POISON, f" \n{OTHER}\n{KEY}", f"{KEY} x\x1b[2J", "ssh-rsa AAAA", "ssh-ed25519 A B\rC", ""])
def test_an_answer_is_one_key_or_nothing(answer):
    assert learn("", answers={"bert-worker2": answer}) == ""


def test_the_answer_of_an_honest_host_counts():
    assert learn("", answers={"bert-worker2": f"{KEY} root@ip-10-0-0-5\r\n"}) == f"i-0bbb {KEY}\n"


def test_keys_of_another_authority_are_dropped():
    before = f"@cert-authority * {KEY}\ni-0bbb {OTHER}\n"
    assert learn(before) == before
    assert learn(before, authority=KEY) == before
    assert learn(before, authority=OTHER) == f"@cert-authority * {OTHER}\n"


def test_a_console_comes_before_what_was_learnt():
    assert learn(f"i-0bbb {OTHER}\n", host_keys=[{"instance_id": "i-0bbb", "keys": [KEY]}]) == f"i-0bbb {KEY}\n"


def test_the_authority_does_not_count_for_revoked_instances():
    assert learn(f"@cert-authority * {KEY}\n", former=["i-0old"]) == f"@cert-authority *,!i-0old {KEY}\n"
    assert learn(f"@cert-authority *,!i-0old {KEY}\ni-0bbb {KEY}\n", revoked=["i-0bbb"]) == f"@cert-authority *,!i-0bbb,!i-0old {KEY}\n"
    assert learn(f"@cert-authority *,!i-0bbb {KEY}\n") == f"@cert-authority * {KEY}\n", "only listed instances are revoked"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("instance_id", "i-0bbb\nHost *\n    ProxyCommand id"),
        ("instance_id", "i-0bbb i-0ccc"),
        ("instance_id", "*"),
        ("address", "10.0.0.5\n    ProxyCommand id"),
        ("user", 'ubuntu" x'),
        ("user", "-oProxyCommand=id"),
        ("proxy_command", "aws ssm\n    LocalCommand id"),
        ("private_key_file", '/k"\nProxyCommand id'),
        ("private_key_file", "/k${SHELL}"),
        ("port", "22 -o x"),
    ],
)
def test_values_that_are_more_than_a_value_are_refused(field, value):
    with pytest.raises(ValueError, match=rf"^'bert-worker2': {field} .* is not"):
        ssh_files.read_nodes({"bert-worker2": {**NODE, field: value}})


@pytest.mark.parametrize("name", ["*", "a b", "a\nHost *", "!a", ""])
def test_names_of_hosts_that_are_patterns_are_refused(name):
    with pytest.raises(ValueError, match="is not allowed in SSH files"):
        ssh_files.read_nodes({name: NODE})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("cluster", "bert *"),
        ("user", "ubuntu,root"),
        ("user", "*"),
        ("principals", ["i-1", "a\nb"]),
        ("principals", ["i-1", "a,deeplearning-master"]),
        ("address_patterns", ["10.0.*\nMatch all"]),
        ("source_addresses", ["10.0.0.5,0.0.0.0/0"]),
        ("revoked", ["i-1 x"]),
        ("authority", f"{KEY}\n{OTHER}"),
    ],
)
def test_the_module_refuses_what_would_be_more_than_a_value_on_hosts(option, value):
    right = {
        "cluster": "bert",
        "user": "ubuntu",
        "authority": KEY,
        "principals": ["i-1", "deeplearning-worker2"],
        "address_patterns": ["10.0.*"],
        "source_addresses": ["10.0.0.5", "10.1.0.0/16"],
        "revoked": ["i-2"],
        "validity_days": 10,
        "renew_days": 5,
    }
    check(right)
    with pytest.raises(ValueError, match=r"is not valid|neither an IP address|not an OpenSSH"):
        check({**right, option: value})


def test_the_configuration_uses_no_host_keys_of_the_machine():
    text = ssh_files.config_file(ssh_files.read_nodes({"bert-worker2": NODE}), "bert-master", "/a b/known_hosts", "/a b/revoked_keys")
    assert "    GlobalKnownHostsFile /dev/null\n" in text
    assert '    UserKnownHostsFile "/a b/known_hosts"\n' in text
    with pytest.raises(ValueError, match="cannot be quoted"):
        ssh_files.config_file(ssh_files.read_nodes({"bert-worker2": NODE}), "bert-master", '/a"\nHost *', "/r")


class Trust(Project):
    """Two hosts whose certificate authority is in AWS. The addresses of both hosts are in /etc/hosts."""

    cloud: LocalCloud

    def configure(self, *arguments: str, check: bool = True, **variables: Any) -> subprocess.CompletedProcess[str]:
        self.write(2, **{"ssh_trust_authority_public_key": "", "ssh_trust_authority_private_key": "", **variables})
        return self.play("ssh_trust", arguments=arguments, check=check)

    def known_hosts(self) -> str:
        return (self.directory / "known_hosts").read_text()

    def authority_in_aws(self) -> str:
        return str(self.cloud.client("ssm").get_parameter(Name=parameter_name(CLUSTER), WithDecryption=True)["Parameter"]["Value"])

    def reach(self, source: int, target: int) -> subprocess.CompletedProcess[str]:
        return self.hosts[source - 1].ssh(f"ssh -o BatchMode=yes -o ConnectTimeout=10 deeplearning-worker{target} true", check=False)

    def reaches(self, source: int, target: int) -> bool:
        return self.reach(source, target).returncode == 0

    def by_config(self, name: str) -> subprocess.CompletedProcess[str]:
        argv = ["ssh", "-F", str(self.directory / "config"), "-o", "BatchMode=yes", "-o", "ControlPath=none", name, "true"]
        return subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)

    def certificate(self, number: int, name: str) -> certificates.Certificate:
        return certificates.parse_certificate(self.hosts[number - 1].ssh(f"cat /etc/ssh/deeplearning/{name}-cert.pub").stdout)


CONSOLES = """
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({name: {"type": "raw"} for name in ("region", "instance_ids", "wait_timeout", "wait", "progress_file")})
asked = module.params["instance_ids"]
keys, problems = {consoles!r}
module.exit_json(host_keys=[row for row in keys if row["instance_id"] in asked],
                 problems=[row for row in problems if row["instance_id"] in asked])
"""


@contextlib.contextmanager
def consoles(folder: Path, keys: dict[str, list[str]], problems: dict[str, str]) -> Iterator[None]:
    """Use a copy of the collection whose module `host_keys_info` returns these keys, and these kinds of problems, by instance ID."""
    copy = folder / "ansible_collections" / "deeplearning" / "cluster"
    (copy / "plugins" / "modules").mkdir(parents=True)
    for place in (Path(), Path("plugins"), Path("plugins", "modules")):
        for path in (COLLECTION / place).iterdir():
            if not (copy / place / path.name).exists():
                (copy / place / path.name).symlink_to(path)
    module = copy / "plugins" / "modules" / "host_keys_info.py"
    module.unlink()
    rows = [{"instance_id": name, "keys": value} for name, value in keys.items()]
    shown = [{"instance_id": name, "kind": kind, "msg": f"the keys are {kind}"} for name, kind in problems.items()]
    module.write_text(CONSOLES.replace("{consoles!r}", repr((rows, shown))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANSIBLE_COLLECTIONS_PATH", str(folder))
        yield


FRESH = ("-e", "ansible_ssh_args=-C")  # do not reuse a connection from an earlier run


def recap(done: subprocess.CompletedProcess[str], name: str) -> str:
    """Return the line of a host in the recap of a run."""
    return next(line for line in done.stdout.split("PLAY RECAP", 1)[1].splitlines() if line.startswith(name))


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trust]:
    folder = tmp_path_factory.mktemp("trust")
    with (
        LocalCloud(tmp_path_factory.mktemp("cloud"), hosts=False) as cloud,
        bare_hosts(folder, count=2) as (runtime, hosts),
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in cloud.environment.items():
            if name.startswith("AWS_"):
                patch.setenv(name, value)
        started = Trust(folder, runtime, hosts)
        started.cloud = cloud
        names = "\\n".join(f"{host.private_ip} deeplearning-worker{number}" for number, host in enumerate(hosts, 1))
        for host in hosts:
            host.ssh(f"printf '{names}\\n' | sudo tee -a /etc/hosts >/dev/null")
        started.configure()
        yield started


def test_certificates_are_short_and_permit_little(trust: Trust) -> None:
    for number, host in enumerate(trust.hosts, 1):
        user, machine = trust.certificate(number, "user_ed25519"), trust.certificate(number, "ssh_host_ed25519_key")
        assert user.critical_options == {"source-address": host.private_ip}
        assert user.extensions == ("permit-pty",)
        assert all(each.valid_before - each.valid_after <= 10 * 86400 + 2 * 3600 for each in (user, machine))
        assert (machine.key_id, user.key_id) == (host.name, f"ubuntu@{host.name}")
    assert trust.reaches(1, 2)
    assert trust.reaches(2, 1)
    assert trust.reaches(2, 2)


def test_a_certificate_opens_nothing_from_another_address(trust: Trust, tmp_path: Path) -> None:
    for name in ("user_ed25519", "user_ed25519-cert.pub"):
        (tmp_path / name).write_text(trust.hosts[1].ssh(f"sudo cat /etc/ssh/deeplearning/{name}").stdout)
    (tmp_path / "user_ed25519").chmod(0o600)
    options = ["BatchMode=yes", "IdentitiesOnly=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null"]
    argv = ["ssh", "-F", "none", "-i", str(tmp_path / "user_ed25519"), *(f"-o{option}" for option in options)]
    done = subprocess.run([*argv, f"ubuntu@{trust.hosts[0].private_ip}", "true"], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 255
    assert "Permission denied" in done.stderr


@pytest.mark.exhaustive
def test_nothing_is_done_in_the_home_of_the_user(trust: Trust) -> None:
    """A key that came with the image is not signed, and links that the user may have created are not followed."""
    host = trust.hosts[1]
    host.ssh("ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519; sudo mkdir /etc/trap; ln -s /etc/trap/x ~/.ssh/id_ed25519-cert.pub")
    baked = "sudo ssh-keygen -q -t ed25519 -N '' -C ubuntu@i-0other -f /etc/ssh/deeplearning/user_ed25519"
    host.ssh(f"sudo rm /etc/ssh/deeplearning/user_ed25519*; {baked}; sudo chown ubuntu /etc/ssh/deeplearning/user_ed25519")
    before = host.ssh("cat ~/.ssh/id_ed25519.pub /etc/ssh/deeplearning/user_ed25519.pub").stdout
    assert changes(trust.configure()) == {trust.name(1): 0, trust.name(2): 1}
    assert trust.certificate(2, "user_ed25519").public_key not in before
    assert host.ssh("ls /etc/trap").stdout == ""
    host.ssh("rm ~/.ssh/id_ed25519*")
    assert trust.reaches(2, 1)


def test_an_answer_of_several_lines_adds_no_line(trust: Trust) -> None:
    host, public = trust.hosts[1], "/etc/ssh/ssh_host_ed25519_key.pub"
    shutil.rmtree(trust.directory)
    lines = f"i-0ccc {OTHER}\\n@cert-authority * {OTHER}\\n"
    host.ssh(f"sudo cp {public} {public}.saved; printf '{lines}' | sudo tee -a {public} >/dev/null")
    try:
        done = trust.configure(*FRESH, check=False, ssh_trust_host_keys=[])
        assert done.returncode != 0, "the instance does not exist in AWS, so there is no console output"
        assert OTHER.split()[1] not in trust.known_hosts()
        assert f"\n{host.name} " not in trust.known_hosts()
        assert f"\n{trust.hosts[0].name} ssh-ed25519 " in trust.known_hosts()
    finally:
        host.ssh(f"sudo mv {public}.saved {public}")
    trust.configure()


def test_values_of_several_lines_are_refused(trust: Trust) -> None:
    before = {name: (trust.directory / name).read_bytes() for name in ("config", "known_hosts", "revoked_keys")}
    done = trust.configure(check=False, deeplearning_proxy_command="true\n    LocalCommand id")
    assert f"'{trust.name(1)}': proxy_command" in done.stdout
    assert {name: (trust.directory / name).read_bytes() for name in before} == before


@pytest.mark.exhaustive
def test_a_cluster_that_was_left_alone_comes_back(trust: Trust, tmp_path: Path) -> None:
    host, path = trust.hosts[1], "/etc/ssh/deeplearning/ssh_host_ed25519_key-cert.pub"
    (tmp_path / "ca").write_text(trust.authority_in_aws())
    (tmp_path / "ca").chmod(0o600)
    (tmp_path / "key.pub").write_text(host.ssh("cat /etc/ssh/ssh_host_ed25519_key.pub").stdout)
    sign = ["ssh-keygen", "-q", "-s", tmp_path / "ca", "-h", "-I", host.name, "-n", f"{host.name},deeplearning-worker2", "-V", "-20d:-1d"]
    subprocess.run([*sign, tmp_path / "key.pub"], check=True)
    expired = (tmp_path / "key-cert.pub").read_text().strip()
    host.ssh(f"echo '{expired}' | sudo tee {path} >/dev/null; sudo systemctl reload ssh")
    refused = trust.reach(1, 2)
    assert refused.returncode == 255
    assert "expired" in refused.stderr
    assert changes(trust.configure(*FRESH)) == {trust.name(1): 0, trust.name(2): 1}
    assert trust.reaches(1, 2)


def test_an_expelled_node_is_trusted_by_nobody(trust: Trust) -> None:
    name = trust.hosts[1].name
    done = trust.configure(*FRESH, check=False, ssh_trust_revoked=[name])
    assert f"{trust.name(2)}: instance {name} is revoked" in done.stdout
    assert changes(done)[trust.name(1)] == 2, "the controller's files and the host"
    assert "revoked" in trust.reach(1, 2).stderr
    assert "Permission denied" in trust.reach(2, 1).stderr
    assert trust.by_config(trust.name(1)).returncode == 0
    assert trust.by_config(trust.name(2)).returncode == 255
    again = trust.configure(*FRESH, check=False, ssh_trust_revoked=[name])
    assert changes(again)[trust.name(1)] == 0, again.stdout
    trust.configure(*FRESH)
    assert trust.reaches(1, 2)
    assert trust.reaches(2, 1)
    assert set(changes(trust.configure()).values()) == {0}


def test_one_host_without_keys_does_not_stop_the_others(trust: Trust, tmp_path: Path) -> None:
    """This controller has no files of the cluster, and the hosts do not answer it."""
    first, second = (host.name for host in trust.hosts)
    shutil.rmtree(trust.directory)
    with consoles(tmp_path, {first: trust.consoles[first]}, {second: "timeout"}):
        done = trust.configure(*FRESH, "-e", '{"__ssh_trust_ask": false}', check=False, ssh_trust_host_keys=[])
    assert f"{trust.name(2)}: the keys are timeout" in done.stdout, done.stdout
    assert "failed=0" in recap(done, trust.name(1)), done.stdout
    assert "failed=1" in recap(done, trust.name(2)), done.stdout
    assert f"\n{first} ssh-ed25519 " in trust.known_hosts()
    trust.configure()


def test_a_host_with_forged_keys_does_not_stop_the_rotation(trust: Trust, tmp_path: Path) -> None:
    old = public_key(trust.authority_in_aws(), "").split()[1]
    first, second = (host.name for host in trust.hosts)
    trust.write(2, ssh_trust_authority_public_key="", ssh_trust_authority_private_key="", ssh_trust_host_keys=[])
    with consoles(tmp_path, {first: trust.consoles[first]}, {second: "conflicting"}):
        done = trust.run("deeplearning.cluster.rotate_authority", FRESH, check=False)
    assert f"instance {second} is revoked, because the keys are conflicting" in " ".join(done.stdout.split())
    assert "failed=0" in recap(done, trust.name(1)), done.stdout
    assert "failed=1" in recap(done, trust.name(2)), done.stdout
    new = public_key(trust.authority_in_aws(), "").split()[1]
    assert new != old
    assert new in trust.hosts[0].ssh("cat /etc/ssh/deeplearning/authority.pub").stdout
    assert old in trust.hosts[1].ssh("cat /etc/ssh/deeplearning/authority.pub").stdout
    assert not trust.reaches(1, 2)
    assert not trust.reaches(2, 1)
    assert trust.by_config(trust.name(1)).returncode == 0
    assert trust.by_config(trust.name(2)).returncode == 255
    trust.configure(*FRESH)
    assert trust.reaches(2, 1)


def test_the_authority_is_rotated(trust: Trust) -> None:
    host, old = trust.hosts[1], public_key(trust.authority_in_aws(), "").split()[1]
    with (trust.directory / "known_hosts").open("a") as file:
        file.write(f"{host.name} {OTHER}\n")
    certificate = host.ssh("cat /etc/ssh/deeplearning/user_ed25519-cert.pub").stdout.strip()
    done = trust.run("deeplearning.cluster.rotate_authority", FRESH)
    assert trust.authority_in_aws() not in done.stdout
    new = public_key(trust.authority_in_aws(), "").split()[1]
    assert new != old
    assert new in trust.known_hosts()
    assert old not in trust.known_hosts()
    assert OTHER.split()[1] not in trust.known_hosts()
    for each in trust.hosts:
        files = each.ssh("cat /etc/ssh/ssh_known_hosts /etc/ssh/deeplearning/authority.pub").stdout
        assert new in files
        assert old not in files
    assert trust.reaches(1, 2)
    assert trust.reaches(2, 1)
    host.ssh(f"echo '{certificate}' > /tmp/old-cert.pub")
    options = "-o IdentitiesOnly=yes -o CertificateFile=/tmp/old-cert.pub -i /etc/ssh/deeplearning/user_ed25519"
    host.ssh("sudo mv /etc/ssh/deeplearning/user_ed25519-cert.pub /etc/ssh/deeplearning/away")
    refused = host.ssh(f"ssh -o BatchMode=yes {options} deeplearning-worker1 true", check=False)
    host.ssh("sudo mv /etc/ssh/deeplearning/away /etc/ssh/deeplearning/user_ed25519-cert.pub")
    assert "Permission denied" in refused.stderr
    assert set(changes(trust.configure()).values()) == {0}


@pytest.mark.exhaustive
def test_a_rotation_that_was_interrupted_is_carried_on(trust: Trust) -> None:
    """The interrupted run had removed the old authority from the controller's file and then stored the new authority in AWS."""
    path = trust.directory / "known_hosts"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if not line.startswith("@")))
    private = generate()
    trust.cloud.client("ssm").put_parameter(Name=parameter_name(CLUSTER), Type="SecureString", Value=private, Overwrite=True)
    done = trust.configure(*FRESH)
    assert changes(done)[trust.name(2)] == 1
    new = public_key(private, "").split()[1]
    assert new in trust.known_hosts()
    assert all(new in host.ssh("cat /etc/ssh/ssh_known_hosts").stdout for host in trust.hosts)
    assert trust.reaches(1, 2)
    assert set(changes(trust.configure()).values()) == {0}


@pytest.mark.exhaustive
@pytest.mark.exhaustive
def test_another_controller_follows_a_rotation(trust: Trust) -> None:
    """The second controller has its own files, which contain the old authority."""
    saved = {name: (trust.directory / name).read_bytes() for name in os.listdir(trust.directory) if (trust.directory / name).is_file()}
    trust.run("deeplearning.cluster.rotate_authority", FRESH)
    for name, content in saved.items():
        (trust.directory / name).write_bytes(content)
    trust.configure(*FRESH)
    assert public_key(trust.authority_in_aws(), "").split()[1] in trust.known_hosts()
    trust.configure(*FRESH)
    assert set(changes(trust.configure(*FRESH)).values()) == {0}
    assert trust.reaches(1, 2)
