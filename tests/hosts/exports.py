"""Instances that export jobs to S3, with only the credentials of their role."""

from __future__ import annotations

import contextlib
import subprocess

from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.instance_role import definition
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.worker_metadata import metadata
from local_cloud.testing import BareHost, LocalCloud, unused_range

from .aws_instances import REGION, launch, mount_file_system
from .cluster import CLUSTER, Cluster

BUCKET = "results-of-jobs"
DESTINATION = f"s3://{BUCKET}/team"


class ExportCluster(Cluster):
    """Instances that run jobs, with a role that may write exports. A single instance has /efs on its own disk."""

    def __init__(self, folder, cloud, hosts):
        self.cloud = cloud
        super().__init__(folder, None, hosts)

    def describe(self):
        described = super().describe()
        described["trainers"]["vars"]["deeplearning_region"] = REGION
        return described

    def configure(self):
        block = metadata.hosts_block(self.workers)
        for number, host in enumerate(self.hosts, 1):
            document = metadata.metadata_file(CLUSTER, number, self.workers, 0)
            host.ssh(
                "cloud-init status --wait && sudo install -d -o ubuntu /efs && sudo mkdir -p /opt/deeplearning"
                f" && sudo tee /opt/deeplearning/metadata.json >/dev/null <<'END'\n{document}END\n"
                f"sudo tee -a /etc/hosts >/dev/null <<'END'\n{block}END\n"
            )

    def train(self, name, script, **variables):
        options = {"launcher": "command", "command": ["python3", f"{name}.py"], "report": False, "export": DESTINATION}
        return super().train(name, script, **{**options, **variables})

    def export(self, name, *arguments):
        done = self.play("deeplearning.cluster.export", "-e", f"training_job_name={name}", *arguments)
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    def objects(self, job):
        prefix = f"team/{job}/"
        listed = self.cloud.client("s3").list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
        return {each["Key"][len(prefix) :]: each["Size"] for each in listed}

    def content(self, job, path):
        return self.cloud.client("s3").get_object(Bucket=BUCKET, Key=f"team/{job}/{path}")["Body"].read()


@contextlib.contextmanager
def export_cluster(folder, count, environments=("aws-cli",)):
    """Launch and configure instances. Two or more instances share a file system."""
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    with unused_range() as network, LocalCloud(folder / "home", environments=environments) as cloud:
        cloud.client("s3").create_bucket(Bucket=BUCKET)
        policy = definition.policy(REGION, [], [], export_destinations=[DESTINATION])
        instances = launch(cloud, key, network, policy, count=count)
        hosts = [BareHost(each["InstanceId"], each["PrivateIpAddress"], "", key) for each in instances]
        if count > 1:
            mount_file_system(cloud, hosts, instances[0]["SubnetId"])
        result = ExportCluster(folder, cloud, hosts)
        result.configure()
        yield result
