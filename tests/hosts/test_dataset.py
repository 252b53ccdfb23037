"""Data sets on real hosts, which access S3 only with the credentials of their role."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import zipfile

import ansible_commands
import pytest
import yaml
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.instance_role import definition
from local_cloud.testing import BareHost, LocalCloud, unused_range, wait_until

from .aws_instances import REGION, launch, mount_file_system

pytestmark = pytest.mark.exhaustive

BUCKET = "sets-of-images"
IMAGES = {f"class{number % 3}/{number:02d}.jpg": str(number) * 100 for number in range(30)}
MODEL = f"sha256:{hashlib.sha256(b'1' + bytes([10])).hexdigest()}"
SLOWLY = """
import http.server, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        content = open("/srv/set.tar.gz", "rb").read()
        start, _, end = self.headers.get("Range", "bytes=0-")[6:].partition("-")
        part = content[int(start) : int(end) + 1 if end else None]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{int(start) + len(part) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(part)))
        self.send_header("ETag", '"1"')
        self.end_headers()
        with open("/tmp/ranges", "a") as log:
            log.write(f"{self.client_address[0]} {start}-{end}\\n")
        for place in range(0, len(part), 20000):
            self.wfile.write(part[place : place + 20000])
            time.sleep(0.1)
http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
"""


class Cluster:
    """Two instances with an IAM role and shared storage, and plays that run on these instances."""

    def __init__(self, cloud, folder, hosts):
        self.cloud, self.folder, self.hosts = cloud, folder, hosts
        options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
        shared = {
            "ansible_user": "ubuntu",
            "ansible_ssh_private_key_file": str(hosts[0].key_file),
            "ansible_ssh_common_args": options,
            "ansible_python_interpreter": "/usr/bin/python3",
        }
        inventory = {
            "all": {"vars": {"deeplearning_cluster": "sets", "deeplearning_region": REGION}},
            "trainers": {
                "hosts": {f"host{number}": {"ansible_host": host.private_ip} for number, host in enumerate(hosts, 1)},
                "vars": shared,
            },
        }
        inventory["trainers"]["vars"] = shared
        self.inventory = folder / "inventory.yml"
        self.inventory.write_text(yaml.safe_dump(inventory))

    def command(self, **variables):
        settings = json.dumps({f"dataset_{name}": value for name, value in variables.items()})
        return ["ansible-playbook", "-i", str(self.inventory), "deeplearning.cluster.dataset", "-e", settings]

    def run(self, *arguments, status=0, **variables):
        done = ansible_commands.run([*self.command(**variables), *arguments], self.cloud.environment, self.folder)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    def unchanged(self, **variables):
        recap = self.run(**variables).split("PLAY RECAP", 1)[1]
        return recap.count("changed=0") == len(recap.strip().splitlines()) - 1

    def read(self, command, host=0):
        return self.hosts[host].ssh(command).stdout


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets")
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    with unused_range() as network, LocalCloud(folder / "home", environments=["aws-cli"]) as cloud:
        instances = launch(cloud, key, network, definition.policy(REGION, [], [BUCKET]), count=2)
        hosts = [BareHost(each["InstanceId"], each["PrivateIpAddress"], "", key) for each in instances]
        mount_file_system(cloud, hosts, instances[0]["SubnetId"])
        yield Cluster(cloud, folder, hosts)


@pytest.fixture(scope="module")
def images(cluster):
    """Images that were uploaded from the controller to a new bucket."""
    folder = cluster.folder / "images"
    for path, content in IMAGES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
    options = {"source": str(folder), "destination": f"s3://{BUCKET}/images"}
    predicted = cluster.run("--check", **options)
    assert "changed=1" in predicted
    cluster.run(**options)
    assert cluster.unchanged(**options)
    return f"s3://{BUCKET}/images"


def test_hosts_fill_the_shared_storage_together_by_their_role(cluster, images):
    output = cluster.run(source=images, shards=[2])
    assert "Download each host's share of the data set" in output
    assert cluster.read("cd /efs/datasets/images && cat */*.jpg", host=1) == "".join(IMAGES[path] for path in sorted(IMAGES))
    assert cluster.read("cat /efs/datasets/images/.dataset.shards/2/* | wc -l").strip() == str(len(IMAGES))
    assert cluster.unchanged(source=images, shards=[2])


def test_several_sources_make_one_data_set_here_and_on_s3(cluster, images):
    s3, server = cluster.cloud.client("s3"), cluster.hosts[0]
    with zipfile.ZipFile(cluster.folder / "labels.zip", "w") as archive:
        archive.writestr("annotations/instances.json", "{}")
    s3.upload_file(str(cluster.folder / "labels.zip"), BUCKET, "labels.zip")
    server.ssh("mkdir -p /tmp/weights && echo 1 >/tmp/weights/model.npz")
    server.ssh("sudo systemd-run --quiet --unit=weights --working-directory=/tmp/weights python3 -m http.server 8001")
    wait_until(lambda: server.ssh("curl -fsI http://localhost:8001/model.npz", check=False).returncode == 0)
    sources = [
        {"source": images, "folder": "train"},
        {"source": f"s3://{BUCKET}/labels.zip", "unpack": True},
        {"source": f"http://{server.private_ip}:8001/model.npz", "folder": "pretrained", "checksum": MODEL},
    ]
    paths = sorted(["annotations/instances.json", "pretrained/model.npz", *(f"train/{path}" for path in IMAGES)])
    cluster.run(name="all", sources=sources)
    files = "cd /efs/datasets/all && find . -type f -not -path './.dataset.*' -printf '%P\\n' | sort"
    assert cluster.read(files, host=1).split() == paths
    assert cluster.unchanged(name="all", sources=sources)

    cluster.run(name="all", sources=sources, destination=f"s3://{BUCKET}/all")
    assert cluster.unchanged(name="all", sources=sources, destination=f"s3://{BUCKET}/all")
    cluster.run(name="again", source=f"s3://{BUCKET}/all", shards=[2])
    assert cluster.read(files.replace("/all", "/again"), host=1).split() == paths


def test_what_the_role_does_not_allow_says_what_to_do(cluster):
    cluster.cloud.client("s3").create_bucket(Bucket="not-for-nodes")
    cluster.cloud.client("s3").put_object(Bucket="not-for-nodes", Key="a", Body=b"")
    output = cluster.run(source="s3://not-for-nodes/a", status=2)
    assert "Add the bucket to deeplearning_read_buckets" in " ".join(output.split())


def test_from_the_controller_to_the_hosts(cluster, tmp_path):
    (tmp_path / "words").mkdir()
    (tmp_path / "words/a").write_text("1")
    cluster.run(source=f"{tmp_path}/words", destination="local")
    assert [cluster.read("cat /var/lib/deeplearning/datasets/words/a", host) for host in (0, 1)] == ["1", "1"]
    assert cluster.unchanged(source=f"{tmp_path}/words", destination="local")


def test_an_interrupted_run_carries_on_where_it_was(cluster):
    server = cluster.hosts[0]
    server.ssh("head -c 6000000 /dev/urandom >/tmp/noise && sudo tar -czf /srv/set.tar.gz -C /tmp noise")
    server.ssh(f"cat >/tmp/serve.py <<'END'\n{SLOWLY}\nEND\nsudo systemd-run --quiet --unit=serve python3 /tmp/serve.py")
    options = {"source": f"http://{server.private_ip}:8000/set.tar.gz", "destination": "local", "unpack": True}
    play = subprocess.Popen(
        cluster.command(**options),
        env=cluster.cloud.environment,
        cwd=cluster.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    part = "/var/lib/deeplearning/datasets/.set.*.partial/download/set.tar.gz"
    sizes = f"cat {part} 2>/dev/null | wc -c"
    wait_until(lambda: all(int(host.ssh(sizes).stdout) > 200_000 for host in cluster.hosts))
    os.killpg(play.pid, signal.SIGKILL)
    play.wait()
    cluster.hosts[1].ssh("sudo pkill -KILL -u ubuntu", check=False)
    output = cluster.run(**options)
    assert "fetching" in output
    sums = {cluster.read("sha256sum </var/lib/deeplearning/datasets/set/noise", host) for host in (0, 1)}
    assert sums == {cluster.read("sha256sum </tmp/noise")}
    ranges = cluster.read("cat /tmp/ranges").split("\n")
    resumed = [line for line in ranges if line and not line.endswith((" 0-", " 0-0"))]
    assert [line.split()[0] for line in resumed] == [cluster.hosts[1].private_ip], "the other host continued without the controller"
    assert cluster.unchanged(**options)
