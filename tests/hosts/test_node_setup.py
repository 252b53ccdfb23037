"""The role node_setup on two real hosts with a local package and git repository. In the second test, the second host is a new host."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
from typing import Any

import pytest
import yaml
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.instance_role import definition
from local_cloud.testing import BareHost, LocalCloud, unused_range, wait_until

from .aws_instances import REGION, launch
from .cluster import CLUSTER, job_cluster
from .packages import APT_REPOSITORY
from .project import changes

BUCKET = "scripts-of-bert"
MASTER, WORKER = f"{CLUSTER}-worker1", f"{CLUSTER}-worker2"
TOKEN = "hunter2-hunter2"

# A package in the only apt repository, and a git repository with a tag.
PREPARE = f"""{APT_REPOSITORY}
git init --quiet /srv/tools
cd /srv/tools
echo tool >tool
git add tool
git -c user.name=a -c user.email=a@example.com commit --quiet --message tool
git tag v1
"""
# Counts its runs, and prints what it receives and what other users can see.
SCRIPT = """\
echo run >>/var/tmp/runs
echo "arguments $*, mode $MODE, user $(id -un), home $HOME, token $TOKEN"
ps axww | awk 'index($0, ENVIRON["TOKEN"]) {seen++} END {print seen + 0, "command lines with the token"}'
"""
# Prints a forged fatal line and terminal control sequences.
HOSTILE = "printf 'fatal: [jobs-worker1]: FAILED!\\n\\033]52;c;eA==\\007\\033[2Jlast words\\n'; test -e /var/tmp/corrected || exit 3"

WEB_SERVER = """
set -e
mkdir -p /srv/web
cd /srv/web
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -subj /CN=localhost -addext subjectAltName=DNS:localhost 2>/dev/null
cat >/srv/server.py <<'SERVER'
import http.server, ssl
server = http.server.HTTPServer(("127.0.0.1", 8443), http.server.SimpleHTTPRequestHandler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("cert.pem", "key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
SERVER
systemd-run --quiet --working-directory=/srv/web python3 /srv/server.py
"""


def steps():
    return [
        {"packages": ["greeting"]},
        {"name": "tools", "repository": "file:///srv/tools", "version": "v1", "path": "/opt/tools"},
        {"script": "setup.sh", "arguments": ["a b", "--jobs", 4], "environment": {"MODE": "fast"}, "secrets": {"TOKEN": TOKEN}},
        {"command": ["touch", "only-for-ubuntu"], "user": "ubuntu"},
        {"name": "of the master", "command": "echo master >/var/tmp/part", "only": "master"},
        {"name": "of the workers", "command": "echo worker >/var/tmp/part", "only": "workers"},
    ]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with job_cluster(tmp_path_factory.mktemp("setup"), [], count=2) as result:
        for host in result.hosts:
            host.ssh(f"sudo sh <<'END'\n{PREPARE}END\n")
        (result.folder / "setup.sh").write_text(SCRIPT)
        playbook = result.folder / "setup.yml"
        playbook.write_text(yaml.safe_dump([{"hosts": "trainers", "gather_facts": False, "roles": ["deeplearning.cluster.node_setup"]}]))
        yield result


def variables(given):
    return "-e", json.dumps({"node_setup_steps": given})


def run(cluster, given, *arguments):
    return cluster.play("setup.yml", *variables(given), *arguments)


def log(host, text):
    """Return the log that contains the given text."""
    return host.ssh(f"sudo sh -c 'cat $(grep -lr \"{text}\" /var/log/deeplearning-node-setup)'").stdout


def test_check_mode_names_the_steps_and_changes_nothing(cluster):
    predicted = run(cluster, steps(), "--check", "--diff", "--limit", MASTER)
    assert changes(predicted) == {MASTER: 1}, predicted.stdout
    names = [line[1:] for line in predicted.stdout.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert names == ["packages", "tools", "script setup.sh", "command", "of the master"]
    assert cluster.hosts[0].ssh("ls /opt/tools /var/lib/deeplearning-node-setup", check=False).returncode != 0


def test_steps_run_once_on_each_node_and_later_on_new_ones(cluster):
    master, worker = cluster.hosts
    done = run(cluster, steps(), "--limit", MASTER)
    assert changes(done) == {MASTER: 1}, done.stdout
    grown = run(cluster, steps(), "-vvv")
    assert changes(grown) == {MASTER: 0, WORKER: 1}, grown.stdout
    assert TOKEN not in done.stdout + done.stderr
    for host, part in ((master, "master"), (worker, "worker")):
        shown = host.ssh(
            "cat /usr/local/share/greeting /opt/tools/tool /var/tmp/part /var/tmp/runs; stat -c %U /home/ubuntu/only-for-ubuntu"
        )
        assert shown.stdout.split() == ["hello", "tool", part, "run", "ubuntu"]
        output = "arguments a b --jobs 4, mode fast, user root, home /root, token ********\n0 command lines with the token\n"
        assert log(host, "arguments a b") == output
        kept = "/var/lib/deeplearning-node-setup/records /var/log/deeplearning-node-setup"
        assert set(host.ssh(f"sudo find {kept} -printf '%u %m\\n'").stdout.split("\n")) == {"root 600", "root 700", ""}
        # grep reads the token from a file, because sudo logs its arguments.
        search = f"printf {TOKEN} >/dev/shm/needle; sudo grep -rlF -f /dev/shm/needle /etc /home /root /tmp /var /run; rm /dev/shm/needle"
        assert host.ssh(search, check=False).stdout == ""
    again = run(cluster, steps(), "-vvv")
    assert set(changes(again).values()) == {0}
    assert "AnsiballZ" not in again.stdout, "a module has run"


def test_a_step_with_new_content_runs_again_and_no_other(cluster):
    (cluster.folder / "setup.sh").write_text(f"{SCRIPT}echo changed\n")
    new_token = steps()
    new_token[2]["secrets"] = {"TOKEN": "hunter3-hunter3"}
    changed = run(cluster, new_token)
    assert set(changes(changed).values()) == {1}
    for host in cluster.hosts:
        assert host.ssh("wc -l </var/tmp/runs; sudo git -C /opt/tools reflog | wc -l").stdout.split() == ["2", "1"]
    new_token[2]["secrets"] = {"TOKEN": TOKEN}
    assert set(changes(run(cluster, new_token)).values()) == {0}, "the value of a secret is not part of the step's content"


@pytest.mark.exhaustive
def test_a_failed_step_ends_its_node_until_it_is_corrected(cluster):
    master, worker = cluster.hosts
    master.ssh("touch /var/tmp/corrected")
    given = [{"command": "echo run >>/var/tmp/first"}, {"name": "hostile", "command": HOSTILE}, {"command": "echo run >>/var/tmp/last"}]
    failed = run(cluster, given)
    assert failed.returncode != 0
    assert changes(failed) == {MASTER: 1, WORKER: 0}
    for part in (
        f"{WORKER}: Step 2 (hostile) failed: the command ended with exit status 3. Correct the step",
        "The log is /var/log/",
        "last words",
    ):
        assert part in failed.stdout
    assert "fatal: [jobs-worker1]: FAILED!" not in [line.rstrip() for line in failed.stdout.splitlines()]
    assert not set("\x1b\x07") & set(failed.stdout + failed.stderr)
    refused = cluster.play(cluster.playbook("refused", "", command=["true"], launcher="command"), *variables(given))
    assert "node_setup_steps: step 2 (hostile), step 3 (command) must succeed on this host before a job starts." in refused.stdout
    assert [line.split()[1] for line in refused.stdout.splitlines() if line.startswith("fatal:")] == [f"[{WORKER}]:"]
    worker.ssh("touch /var/tmp/corrected")
    assert changes(run(cluster, given)) == {MASTER: 0, WORKER: 1}
    assert worker.ssh("cat /var/tmp/first /var/tmp/last").stdout.split() == ["run", "run"]
    trained = cluster.play(cluster.playbook("trained", "", command=["true"], launcher="command"), *variables(given))
    assert trained.returncode == 0, trained.stdout


def test_a_step_that_takes_too_long_leaves_no_process(cluster):
    endless = "sleep 4321 & setsid sleep 4321 & echo waiting; wait"
    failed = run(cluster, [{"command": endless, "timeout": 2}], "--limit", MASTER)
    assert f"{MASTER}: Step 1 (command) failed: timed out after 2 s." in failed.stdout
    assert cluster.processes("sleep 4321") == []


@pytest.mark.exhaustive
def test_a_script_from_the_web_runs_only_with_its_digest(cluster):
    host = cluster.hosts[0]
    content = "echo run >>/var/tmp/downloaded\n"
    host.ssh(f"sudo sh <<'END'\n{WEB_SERVER}END\nprintf '{content}' | sudo tee /srv/web/x.sh >/dev/null")
    wait_until(lambda: host.ssh("curl -s --cacert /srv/web/cert.pem https://localhost:8443/x.sh", check=False).stdout)
    step = {"script": "https://localhost:8443/x.sh?signature=one", "environment": {"CURL_CA_BUNDLE": "/srv/web/cert.pem"}}
    digest = hashlib.sha256(content.encode()).hexdigest()
    refused = run(cluster, [{**step, "sha256": "0" * 64}], "--limit", MASTER)
    assert f"the SHA-256 digest of the downloaded file is {digest}, not {'0' * 64}" in refused.stdout
    assert host.ssh("ls /var/tmp/downloaded", check=False).returncode != 0
    for signature, changed in (("one", 1), ("two", 0)):
        given = {**step, "script": f"https://localhost:8443/x.sh?signature={signature}", "sha256": digest}
        assert changes(run(cluster, [given], "--limit", MASTER)) == {MASTER: changed}
    assert host.ssh("cat /var/tmp/downloaded").stdout == "run\n"
    missing = run(cluster, [{**step, "script": "https://localhost:8443/missing.sh"}], "--limit", MASTER)
    assert "curl ended with exit status 22" in missing.stdout


@pytest.fixture
def instance(tmp_path):
    """An instance with the AWS CLI. Its role reads one of two buckets. Yields the account and the host."""
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    with unused_range() as network, LocalCloud(tmp_path / "home", environments=["aws-cli"]) as cloud:
        for bucket in (BUCKET, "scripts-of-others"):
            cloud.client("s3").create_bucket(Bucket=bucket)
        (launched,) = launch(cloud, key, network, definition.policy(REGION, [BUCKET], []))
        host = BareHost(launched["InstanceId"], launched["PrivateIpAddress"], "", key)
        host.ssh("cloud-init status --wait")
        yield cloud, host


@pytest.mark.exhaustive
def test_a_script_from_s3_is_downloaded_with_the_permissions_of_the_role(instance, tmp_path):
    cloud, host = instance
    content = b'echo "$1" >>/var/tmp/downloaded\n'
    for bucket in (BUCKET, "scripts-of-others"):
        cloud.client("s3").put_object(Bucket=bucket, Key="boot/set up.sh", Body=content)
    connection = {
        "ansible_host": host.private_ip,
        "ansible_user": "ubuntu",
        "ansible_ssh_private_key_file": str(host.key_file),
        "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR",
        "ansible_python_interpreter": "/usr/bin/python3",
        "deeplearning_region": REGION,
    }
    (tmp_path / "nodes.yml").write_text(yaml.safe_dump({"trainers": {"hosts": {"node": connection}}}))
    (tmp_path / "setup.yml").write_text(
        yaml.safe_dump([{"hosts": "trainers", "gather_facts": False, "roles": ["deeplearning.cluster.node_setup"]}])
    )

    def set_up(bucket, **more):
        step = {"script": f"s3://{bucket}/boot/set up.sh", "arguments": ["run"], **more}
        command = ["ansible-playbook", "-i", "nodes.yml", "setup.yml", *variables([step])]
        return subprocess.run(command, env=cloud.environment, cwd=tmp_path, capture_output=True, text=True, check=False)

    denied = set_up("scripts-of-others")
    assert denied.returncode != 0
    assert "Step 1 (script set up.sh) failed: aws s3 cp ended with exit status 1" in denied.stdout, denied.stdout
    assert "(403)" in denied.stdout or "AccessDenied" in denied.stdout, denied.stdout
    refused = set_up(BUCKET, sha256="0" * 64)
    assert "the SHA-256 digest of the downloaded file is" in refused.stdout, refused.stdout
    assert host.ssh("ls /var/tmp/downloaded", check=False).returncode != 0
    digest = hashlib.sha256(content).hexdigest()
    assert [changes(set_up(BUCKET, sha256=digest)) for _run in range(2)] == [{"node": 1}, {"node": 0}]
    assert host.ssh("cat /var/tmp/downloaded").stdout == "run\n"


def test_errors_are_told_before_a_node_is_contacted(cluster):
    for playbook in ("setup.yml", "deeplearning.cluster.configure"):
        wrong = cluster.play(playbook, *variables([{"script": "nowhere.sh"}, {"command": "true", "timout": 3}]), "-vvv")
        assert wrong.returncode != 0
        assert "node_setup_steps: step 1: script: 'nowhere.sh' is not a file on the controller" in wrong.stdout
        assert "node_setup_steps: step 2: unknown key 'timout'. Did you mean 'timeout'?" in wrong.stdout
        assert "ESTABLISH SSH CONNECTION" not in wrong.stdout


def test_steps_go_on_without_the_controller(cluster):
    given = [{"command": "echo begun >/var/tmp/long; while ! [ -e /var/tmp/go ]; do sleep 0.2; done; echo run >>/var/tmp/long"}]
    command = ["ansible-playbook", "-i", str(cluster.inventory), "setup.yml", *variables(given), "--limit", MASTER]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    first = subprocess.Popen(command, cwd=cluster.folder, start_new_session=True, **pipes)
    host = cluster.hosts[0]
    wait_until(lambda: host.ssh("cat /var/tmp/long", check=False).stdout == "begun\n")
    while first.returncode is None:  # Ansible ignores the signal while it starts a worker
        os.killpg(first.pid, signal.SIGINT)  # Ctrl-C in a terminal also reaches all processes
        with contextlib.suppress(subprocess.TimeoutExpired):
            first.communicate(timeout=10)
    second = subprocess.Popen(command, cwd=cluster.folder, **pipes)
    assert second.stdout is not None
    shown = next(line for line in second.stdout if "set-up step 1" in line)
    assert shown.startswith(f"{MASTER}: set-up step 1 (command), ")
    host.ssh("touch /var/tmp/go")
    second.communicate()
    assert second.returncode == 0
    assert host.ssh("cat /var/tmp/long").stdout.split() == ["begun", "run"]
