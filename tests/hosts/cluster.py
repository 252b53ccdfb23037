"""Hosts that run jobs and that are booted without an AWS API. For speed, the class itself does most of what the host roles would do."""

from __future__ import annotations

import contextlib
import json
import os
import textwrap

import ansible_commands
import yaml
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.console import host_keys
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.worker_metadata import metadata
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from local_cloud.testing import bare_hosts, wait_until

FILE_SYSTEM = "fs-0123456789abcdef0"
CLUSTER = "jobs"


class Cluster:
    """Configured hosts, and methods that run plays and jobs on them."""

    def __init__(self, folder, runtime, hosts):
        self.folder, self.runtime, self.hosts = folder, runtime, hosts
        self.workers = [
            {"number": number, "name": f"deeplearning-worker{number}", "address": host.private_ip} for number, host in enumerate(hosts, 1)
        ]
        self.inventory = folder / "inventory.yml"
        self.inventory.write_text(yaml.safe_dump(self.describe()))

    def describe(self):
        options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o ServerAliveInterval=5 -o ServerAliveCountMax=2"
        entries = {
            f"{CLUSTER}-worker{worker['number']}": {
                "ansible_host": worker["address"],
                "deeplearning_number": worker["number"],
                "deeplearning_hostname": worker["name"],
                "deeplearning_private_ip": worker["address"],
                "deeplearning_instance_id": host.name,
            }
            for worker, host in zip(self.workers, self.hosts, strict=True)
        }
        shared = {
            "ansible_user": "ubuntu",
            "ansible_ssh_private_key_file": str(self.hosts[0].key_file),
            "ansible_ssh_common_args": options,
            "ansible_python_interpreter": "/usr/bin/python3",
            "deeplearning_cluster": CLUSTER,
        }
        return {"trainers": {"hosts": entries, "vars": shared}}

    def configure(self):
        """Mount the shared storage and write the files that the role worker_metadata would write."""
        self.runtime.export(FILE_SYSTEM, [FILE_SYSTEM])
        for number in range(1, len(self.hosts) + 1):
            self.configure_host(number)

    def configure_host(self, number):
        """Mount the shared storage and write the files on one host."""
        document = metadata.metadata_file(CLUSTER, number, self.workers, 0)
        block = metadata.hosts_block(self.workers)
        profile = metadata.profile_file(metadata.variables(len(self.workers), "/opt/deeplearning/workers", 0, "/efs"))
        self.hosts[number - 1].ssh(
            f"sudo mkdir -p /efs /opt/deeplearning && sudo mount -t nfs4 -o nfsvers=4.1 {FILE_SYSTEM}:/ /efs && sudo chown ubuntu /efs"
            f" && sudo tee /opt/deeplearning/metadata.json >/dev/null <<'END'\n{document}END\n"
            f"sudo tee -a /etc/hosts >/dev/null <<'END'\n{block}END\n"
            f"sudo tee /etc/profile.d/deeplearning.sh >/dev/null <<'END'\n{profile}END\n"
        )

    def _host_keys(self, host):
        """Return the SSH host keys from a host's console output. cloud-init prints the keys some time after SSH is available."""
        wait_until(lambda: host_keys(self.runtime.console_output(host.name)))
        return host_keys(self.runtime.console_output(host.name))

    def trust(self):
        """Use the role ssh_trust to give the hosts certificates, for frameworks that connect to other hosts over SSH."""
        key = Ed25519PrivateKey.generate()
        variables = {
            "deeplearning_region": "us-east-1",
            "deeplearning_ssh_directory": str(self.folder / "ssh"),
            "ssh_trust_authority_public_key": key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode(),
            "ssh_trust_authority_private_key": key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode(),
            "ssh_trust_host_keys": [{"instance_id": host.name, "keys": self._host_keys(host)} for host in self.hosts],
        }
        playbook = self.folder / "trust.yml"
        playbook.write_text(
            yaml.safe_dump([{"hosts": "trainers", "gather_facts": False, "vars": variables, "roles": ["deeplearning.cluster.ssh_trust"]}])
        )
        result = self.play(str(playbook))
        assert result.returncode == 0, result.stdout + result.stderr

    def play(self, *arguments):
        return ansible_commands.run(["ansible-playbook", "-i", str(self.inventory), *arguments], os.environ, self.folder)

    def train(self, name, script, **variables):
        """Run the role training_job on all hosts with a script, which is given as a path or as text."""
        return self.play(self.playbook(name, script, **variables))

    def playbook(self, name, script, **variables):
        """Write a play that runs the role, and return the path of the play."""
        if "\n" in script:
            path = self.folder / f"{name}.py"
            path.write_text(textwrap.dedent(script))
            script = str(path)
        playbook = self.folder / f"{name}.yml"
        # Most tests cover a single attempt.
        options = {"name": name, "script": script, "restarts": 0, **variables}
        role_variables = {f"training_job_{key}": value for key, value in options.items()}
        play = {
            "hosts": "trainers",
            "gather_facts": False,
            "vars": role_variables,
            "roles": ["deeplearning.cluster.training_job"],
        }
        playbook.write_text(yaml.safe_dump([play]))
        return str(playbook)

    def start(self, name, script, **variables):
        """Start a job without waiting for it."""
        result = self.train(name, script, wait=False, **variables)
        assert result.returncode == 0, result.stdout + result.stderr

    def stop(self, name):
        """Stop a job with the playbook `stop`."""
        result = self.play("deeplearning.cluster.stop", "-e", f"training_job_name={name}")
        assert result.returncode == 0, result.stdout + result.stderr

    def read(self, path):
        return self.hosts[0].ssh(f"cat {path}").stdout

    def info(self, name, goodput="never", worker=1):
        """Return the job as reported by the module training_job_info on one host (by default, the first host)."""
        command = ["ansible", f"{CLUSTER}-worker{worker}", "-i", str(self.inventory), "-m", "deeplearning.cluster.training_job_info"]
        environment = {**os.environ, "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"}
        done = ansible_commands.run([*command, "-a", f"name={name} directory=/efs/jobs goodput={goodput}"], environment, self.folder)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]

    def processes(self, marker):
        """Return all processes, on all hosts, whose command line contains the marker."""
        pattern = f"[{marker[0]}]{marker[1:]}"
        return [
            line
            for host in self.hosts
            for line in host.ssh(f"pgrep -fa '{pattern}'", check=False).stdout.splitlines()
            if "pgrep" not in line
        ]

    def members(self, job):
        """Return all processes, on all hosts, whose environment variables name the job, regardless of their cgroup."""
        command = f"sudo grep -lzx DEEPLEARNING_JOB={job} /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3 | xargs -r ps -o pid=,args= -p"
        return [f"{host.name}: {line}" for host in self.hosts for line in host.ssh(command, check=False).stdout.splitlines()]


@contextlib.contextmanager
def job_cluster(folder, environments, count=3, **options):
    """Boot and configure hosts that have these environments."""
    with bare_hosts(folder, count=count, environments=environments, **options) as (runtime, hosts):
        cluster = Cluster(folder, runtime, hosts)
        cluster.configure()
        yield cluster
