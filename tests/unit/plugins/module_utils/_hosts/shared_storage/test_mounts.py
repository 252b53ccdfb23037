"""The fstab entry, the boot script and the reading of mount tables."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from types import SimpleNamespace

import botocore.session
import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import ClusterError
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.component import Mount, Request
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.network import adopted, vpc_endpoints
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group import definition as node_definition
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.plan.resources import Address, Computed, Found, Ref, resolve
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.regions import partition_of
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage import tags as storage_tags
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.bucket import component as bucket_component
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.efs import definition
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.efs import resources as file_system_resources
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.lustre import resources as lustre_resources
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.lustre.definition import EVENTS, data_repository
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.storage.registry import STORAGE
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.shared_storage import boot, mounting, mounts
from botocore.stub import Stubber

SOURCE = "fs-1.efs.us-east-1.amazonaws.com:/"
ENTRY = f"{SOURCE} /efs nfs4 nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport,nosuid,nodev,_netdev,nofail 0 0"
LUSTRE_SOURCE = "fs-2.fsx.us-east-1.amazonaws.com@tcp:/abcdefgh"
PLAIN = mounts.efs("fs-1", "us-east-1", "/efs", encrypted=False)
EITHER = mounts.efs("fs-1", "us-east-1", "/efs")
TLS = mounts.efs("fs-1", "us-east-1", "/efs", encrypted=True)
POINT = mounts.efs("fs-1", "us-east-1", "/efs", access_point="fsap-1")
LUSTRE = mounts.lustre(LUSTRE_SOURCE, "/fsx")
BUCKET = mounts.bucket("s3://sets/images", "/data")


@pytest.mark.parametrize(
    ("described", "entry"),
    [
        (PLAIN, ENTRY),
        (EITHER, ENTRY),
        (mounts.efs("fs-1", "us-east-1", "/efs", address="10.1.0.4"), ENTRY.replace(SOURCE, "10.1.0.4:/")),
        (
            mounts.efs("fs-1", "cn-north-1", "/efs", dns_suffix="amazonaws.com.cn"),
            ENTRY.replace("us-east-1.amazonaws.com", "cn-north-1.amazonaws.com.cn"),
        ),
        (TLS, "fs-1:/ /efs efs tls,noresvport,nosuid,nodev,_netdev,nofail 0 0"),
        (
            mounts.efs("fs-1", "us-east-1", "/efs", address="10.1.0.4", encrypted=True),
            "fs-1:/ /efs efs tls,noresvport,nosuid,nodev,mounttargetip=10.1.0.4,_netdev,nofail 0 0",
        ),
        (POINT, "fs-1:/ /efs efs tls,noresvport,nosuid,nodev,accesspoint=fsap-1,_netdev,nofail 0 0"),
        (LUSTRE, f"{LUSTRE_SOURCE} /fsx lustre noatime,flock,nosuid,nodev,_netdev,nofail 0 0"),
    ],
)
def test_fstab_entry(described, entry):
    assert described.entry == entry


@pytest.mark.parametrize("path", ["efs", "/", "/a b", "/a;b", ""])
def test_bad_mount_point(path):
    with pytest.raises(ValueError, match="is not the id of an access point"):
        mounts.efs("fs-1", "us-east-1", "/efs", access_point=f"fsap-1{path},x")
    with pytest.raises(ValueError, match="mount point"):
        mounts.efs("fs-1", "us-east-1", path)
    with pytest.raises(ValueError, match="mount point"):
        mounts.lustre(LUSTRE_SOURCE, path)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", f"{ENTRY}\n"),
        ("# /efs\nUUID=1 / ext4 defaults 0 1", f"# /efs\nUUID=1 / ext4 defaults 0 1\n{ENTRY}\n"),
        (f"fs-0:/ /efs nfs4 hard 0 0\nproc /proc proc\n{ENTRY}\n", f"{ENTRY}\nproc /proc proc\n"),
        (f"{ENTRY}\n", f"{ENTRY}\n"),
        (f"{TLS.entry}\n", f"{ENTRY}\n"),
        (LUSTRE.entry.replace("/fsx", "/efs"), f"{ENTRY}\n"),
    ],
)
def test_replace_entry(before, after):
    assert mounts.replace_entry(before, "/efs", ENTRY) == after


def test_replace_entry_respects_others():
    with pytest.raises(ValueError, match="/dev/sdb at /efs"):
        mounts.replace_entry("/dev/sdb /efs ext4 defaults 0 0\n", "/efs", ENTRY)
    assert mounts.replace_entry(f"proc /proc proc\n{ENTRY}\n", "/efs", "") == "proc /proc proc\n"


@pytest.mark.parametrize("described", [PLAIN, TLS, LUSTRE, EITHER])
def test_the_script_of_a_host_gets_the_entry_of_today(described):
    """A host that was launched with other options would add their entry again at each boot."""
    script = boot.boot_script([mounts.lustre(LUSTRE_SOURCE, "/other"), described], "ubuntu")
    old = script.replace(",nosuid,nodev", "")
    assert boot.replace_in_script(script, described, described) == script
    for way in described.ways:
        today = boot.boot_script([mounts.lustre(LUSTRE_SOURCE, "/other"), described], "ubuntu").splitlines()
        today = [f"add '{way.entry}' {way.mount_point}" if way.entry in line else line for line in today]
        assert boot.replace_in_script(old, described, way).splitlines() == [
            line.replace(",nosuid,nodev", "") if " /other " in line else line for line in today
        ]


def test_what_tls_must_have_is_in_the_script_of_a_host_that_may_do_without():
    script = boot.boot_script([EITHER], "ubuntu")
    required = boot.replace_in_script(script, TLS, TLS)
    assert f"\nadd '{TLS.entry}' /efs\n" in required
    assert ENTRY not in required


@pytest.mark.parametrize(
    ("type_", "shared"),
    [("nfs", True), ("nfs4", True), ("efs", True), ("lustre", True), ("nfsd", False), ("ext4", False), ("fuse.sshfs", False)],
)
def test_one_table_says_what_is_shared(type_, shared):
    assert mounts.is_shared(type_) is shared


@pytest.mark.parametrize(
    ("older", "kind", "source"),
    [("file_system_id", "efs", "fs-1"), ("lustre_source", "lustre", LUSTRE_SOURCE)],
)
def test_older_arguments_of_the_module_say_the_same(older, kind, source):
    arguments = {"path": "/data", "owner": "ubuntu", "region": "us-east-1", "adopted": True}
    both = [{older: source, **arguments}, {"kind": kind, "source": source, **arguments}]
    parsed = [ArgumentSpecValidator(**mounting.SPECIFICATION).validate(each) for each in both]
    assert [each.error_messages for each in parsed] == [[], []]
    first, second = (mounting.described(each.validated_parameters) for each in parsed)
    assert first == second
    assert (second.mount_point, second.adopted) == ("/data", True)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"source": "fs-1"}, {"kind": "efs", "source": "fs-1"}, {"kind": "efs", "source": "fs-1", "file_system_id": "fs-1", "region": "a"}],
)
def test_the_module_needs_to_know_what_to_mount(arguments):
    parsed = ArgumentSpecValidator(**mounting.SPECIFICATION).validate({"owner": "ubuntu", **arguments})
    assert parsed.error_messages


@pytest.mark.parametrize(
    ("source", "mounted"),
    [
        ("s3://sets", "s3://sets/"),
        ("s3://sets/", "s3://sets/"),
        ("s3://sets/images", "s3://sets/images/"),
        ("s3://my.sets-1/a=1/b_2@x/", "s3://my.sets-1/a=1/b_2@x/"),
    ],
)
def test_a_bucket_is_mounted_as_mountpoint_documents_it(source, mounted):
    assert mounts.bucket(source, "/data").entry == f"{mounted} /data mount-s3 ro,allow-other,nosuid,nodev,_netdev,nofail 0 0"


@pytest.mark.parametrize(
    "source",
    ["", "sets", "s3://", "s3://Sets", "s3://sets//images", "s3://sets/a b", "s3://sets/a,rw", "s3://sets/a\nb", "s3://sets/'a", "s3://s"],
)
def test_what_is_no_bucket_is_not_put_into_fstab(source):
    with pytest.raises(ValueError, match="is not a bucket or prefix"):
        mounts.bucket(source, "/data")


@pytest.mark.parametrize(
    ("fstab", "right"), [("", True), (f"{BUCKET.entry}\n", True), (f"{BUCKET.entry.replace('images', 'others')}\n", False)]
)
def test_all_that_mountpoint_mounts_looks_alike_so_that_fstab_tells(fstab, right):
    mount = mounts.MountTableEntry("mountpoint-s3", "fuse", "/", "ro,nosuid,nodev")
    assert mount.is_shared
    assert (mounts.mounted_way(mount, BUCKET, fstab, []) == BUCKET) is right
    assert mounts.mounted_way(mount._replace(source="sshfs"), BUCKET, fstab, []) is None


MOUNTINFO = f"""\
22 1 259:1 / / rw,relatime - ext4 /dev/root rw
90 22 0:45 / /efs rw,relatime shared:50 - nfs4 {SOURCE} rw,vers=4.1
91 22 0:46 / /my\\040data rw - ext4 /dev/sdb rw
92 22 259:1 /exports/fs-1 /bound rw - ext4 /dev/root rw
93 22 0:47 / /tls rw - nfs4 127.0.0.1:/ rw,vers=4.1,port=20049
94 22 0:48 / /fsx rw - lustre 10.0.1.7@tcp:/abcdefgh rw,flock
"""


@pytest.mark.parametrize(
    ("path", "expected", "right"),
    [
        ("/efs", PLAIN, True),
        ("/efs", mounts.efs("fs-2", "us-east-1", "/efs"), False),
        ("/efs", TLS, False),
        ("/my data", PLAIN, False),
        ("/bound", PLAIN, True),
        ("/bound", LUSTRE, True),
        ("/tls", mounts.efs("fs-1", "us-east-1", "/tls", encrypted=True), True),
        ("/tls", mounts.efs("fs-2", "us-east-1", "/tls", encrypted=True), False),
        ("/tls", TLS, False),
        ("/tls", PLAIN, False),
        ("/fsx", LUSTRE, True),
        ("/fsx", mounts.lustre("fs-2.fsx.us-east-1.amazonaws.com@tcp:/other", "/fsx"), False),
        ("/fsx", PLAIN, False),
    ],
)
def test_is_mount_of(path, expected, right):
    assert mounts.is_mount_of(mounts.mounted_at(MOUNTINFO, path), expected, ["fs-1.tls.20049", "fs-1.tls.20049+"]) is right


def either(path, file_system="fs-1"):
    return mounts.efs(file_system, "us-east-1", path)


@pytest.mark.parametrize(
    ("path", "fstab", "file_system", "kind"),
    [
        ("/efs", "", "fs-1", "nfs4"),
        ("/efs", "", "fs-2", None),
        ("/tls", f"{PLAIN.entry.replace('/efs', '/tls')}\n", "fs-1", "efs"),
        ("/tls", "", "fs-2", None),
        ("/bound", "", "fs-1", "nfs4"),
        ("/bound", "fs-1:/ /bound efs tls 0 0\n", "fs-1", "efs"),
        ("/fsx", "", "fs-1", None),
    ],
)
def test_either_way_of_efs_is_right_where_it_is_mounted(path, fstab, file_system, kind):
    mount = mounts.mounted_at(MOUNTINFO, path)
    way = mounts.mounted_way(mount, either(path, file_system), fstab, ["fs-1.tls.20049"])
    assert (way and way.kind) == kind


@pytest.mark.parametrize(("options", "safe"), [("rw,nosuid,nodev,relatime", True), ("rw,nosuid,relatime", False), ("rw", False)])
def test_a_mount_is_safe_without_setuid_files_and_devices(options, safe):
    mount = mounts.mounted_at(f"90 22 0:45 / /efs {options} shared:50 - nfs4 {SOURCE} rw,nosuid,nodev,vers=4.1\n", "/efs")
    assert mount.is_safe is safe


def test_the_helper_of_efs_remembers_the_file_system():
    tunnel = mounts.MountTableEntry(mounts.TUNNEL, "nfs4", "/")
    deep = mounts.efs("fs-1", "us-east-1", "/mnt/efs", encrypted=True)
    assert mounts.is_mount_of(tunnel, deep, ["fs-1.mnt.efs.20049"])
    assert not mounts.is_mount_of(tunnel, deep, ["fs-1.mnt.20049", "fs-1.efs.20049", "fs-2.mnt.efs.20049"])


@pytest.mark.parametrize(
    ("mounted", "expected", "right"),
    [
        (POINT, POINT, True),
        (TLS, POINT, False),
        (POINT, TLS, False),
        (POINT, EITHER, False),
        (mounts.efs("fs-1", "us-east-1", "/efs", access_point="fsap-2"), POINT, False),
    ],
)
@pytest.mark.parametrize(
    "mount", [mounts.MountTableEntry(mounts.TUNNEL, "nfs4", "/"), mounts.MountTableEntry("/dev/root", "ext4", "/exports/fs-1")]
)
def test_what_is_mounted_through_an_access_point_is_not_the_whole(mount, mounted, expected, right):
    way = mounts.mounted_way(mount, expected, mounted.entry, ["fs-1.efs.20049"])
    assert (way is not None and way.kind == "efs") is right


def test_an_access_point_is_not_mounted_in_the_clear():
    with pytest.raises(ValueError, match="EFS needs TLS for it"):
        mounts.efs("fs-1", "us-east-1", "/efs", access_point="fsap-1", encrypted=False)


def test_mounted_at_takes_the_topmost():
    assert mounts.mounted_at(MOUNTINFO, "/data") is None
    assert mounts.mounted_at(MOUNTINFO + "93 90 0:47 / /efs rw - tmpfs tmpfs rw\n", "/efs").kind == "tmpfs"


@pytest.mark.parametrize(
    ("output", "described", "expected"),
    [
        ("mount.nfs4: Failed to resolve server fs-1: Name or service not known", PLAIN, "no mount target"),
        ("mount.nfs4: Connection timed out", PLAIN, "port 2049"),
        (" status 124", PLAIN, "port 2049"),
        (" status 124", LUSTRE, "fs-2.fsx.us-east-1.amazonaws.com does not answer.*988"),
        ("mount.lustre: Can't parse NID 'fs-2'", LUSTRE, "has no address here"),
        ("mount.nfs4: access denied by server while mounting", PLAIN, "policy.*If it demands TLS, the host needs amazon-efs-utils"),
        ("mount.nfs4: access denied by server while mounting 127.0.0.1:/", TLS, "fs-1 refuses this host: its policy.*no IAM identity"),
        ("access denied by server", POINT, "come through access point fsap-1"),
        ("mount: unknown filesystem type 'nfs4'.", PLAIN, "nfs-common"),
        ("mount: unknown filesystem type 'efs'.", TLS, "install amazon-efs-utils|no amazon-efs-utils"),
        ("mount.lustre: mount failed: No such device", LUSTRE, "no Lustre client"),
        ("mount.nfs4: strange", PLAIN, "strange"),
        (
            "Error: Failed to create S3 client: Access Denied",
            BUCKET,
            "role of the nodes must be allowed.*Access Denied",
        ),
        ("mount: unknown filesystem type 'mount-s3'.", BUCKET, "no Mountpoint for Amazon S3"),
    ],
)
def test_explain(output, described, expected):
    assert re.search(expected, mounts.explain(output, described))


def test_cloud_config_has_the_entries_of_the_role():
    config = boot.cloud_config([TLS, LUSTRE], "ubuntu")
    script, unit = (file["content"] for file in config["write_files"])
    for described in (TLS, LUSTRE):
        assert f"add '{described.entry}' {described.mount_point}" in script
    subprocess.run(["sh", "-n"], input=script, text=True, check=True)
    assert config["write_files"][0]["path"] in unit
    assert ["systemctl", "start", "--no-block", boot.UNIT] in config["runcmd"]
    assert boot.cloud_config([], "ubuntu") == {}


class Host:
    """A folder of tools that write down how they are called, in which the boot script runs."""

    def __init__(self, folder):
        self.folder, self.tools, self.log = folder, folder / "bin", folder / "log"
        self.tools.mkdir()
        for name in ("cat", "date", "ln", "mkdir", "test", "touch"):
            (self.tools / name).symlink_to(shutil.which(name))
        self.tool("grep", 'case "$3" in */fstab) while read -r line; do [ "$line" = "$2" ] && exit; done <"$3" ;; esac; exit 1')
        self.tool("sleep", "")
        self.tool("chown", "")
        self.tool("timeout", '[ "$1 $2" = "--signal=INT --kill-after=5" ] && shift 3 && exec "$@"')
        self.tool("mountpoint", f'[ -e {folder}/mounted-"${{2##*/}}" ]')

    def tool(self, name, body):
        (self.tools / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{self.log}\n{body}\n')
        (self.tools / name).chmod(0o755)

    def fails_first(self, name, then):
        return f"test -e {self.folder}/{name} && {{ {then}; exit; }}; touch {self.folder}/{name}; exit 1"

    def mounted(self):
        return f'touch {self.folder}/mounted-"${{1##*/}}"'

    def here(self, item):
        preferred = self.here(item.preferred) if item.preferred else None
        return item._replace(mount_point=f"{self.folder}{item.mount_point}", preferred=preferred)

    def boot(self, *storages):
        here = [self.here(item) for item in storages]
        (self.folder / "fstab").touch()
        self.log.touch()
        script = boot.boot_script(here, "ubuntu").replace("/etc/fstab", f"{self.folder}/fstab")
        done = subprocess.run(
            ["/bin/sh"], input=script, text=True, check=False, capture_output=True, env={"PATH": str(self.tools)}, timeout=60
        )
        calls = [line.replace(str(self.folder), "") for line in self.log.read_text().splitlines()]
        return done, [call for call in calls if call.split()[0] in ("apt-get", "dnf", "mount", "chown")]


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def test_boot_tries_again_until_the_client_is_there_and_the_storage_is_mounted(host):
    """Neither the package servers nor the mount target answer the first time."""
    install = host.fails_first("install", f"ln {host.tools}/mount {host.tools}/mount.nfs4")
    host.tool("apt-get", f'[ "$1" = update ] || {{ {install}; }}')
    host.tool("mount", host.fails_first("mount", host.mounted()))
    done, calls = host.boot(PLAIN)
    assert done.returncode == 0
    assert [call.split()[0] for call in calls] == ["apt-get", "apt-get", "apt-get", "apt-get", "mount", "mount", "chown"]
    assert (host.folder / "fstab").read_text().startswith(SOURCE)


def test_boot_goes_on_without_a_client_that_the_distribution_lacks(host):
    """The other storage is mounted, and nothing is tried for a quarter of an hour."""
    host.tool("apt-get", "")
    host.tool("mount", host.mounted())
    host.tool("mount.nfs4", "")
    done, calls = host.boot(LUSTRE, PLAIN)
    assert calls == ["mount /efs", "chown ubuntu: /efs"]
    assert done.returncode == 1
    assert "nothing is mounted at" in done.stderr
    assert "no Lustre client" in done.stderr


def test_boot_leaves_the_owner_of_an_adopted_file_system_alone(host):
    """It is somebody else's, and where root is squashed it could not be changed at all."""
    host.tool("mount", host.mounted())
    host.tool("mount.nfs4", "")
    host.tool("mount.lustre", "")
    done, calls = host.boot(PLAIN._replace(adopted=True), LUSTRE)
    assert done.returncode == 0
    assert calls == ["mount /efs", "mount /fsx", "chown ubuntu: /fsx"]


def test_boot_mounts_a_bucket_and_changes_nothing_in_it(host):
    host.tool("mount", host.mounted())
    host.tool("mount.mount-s3", "")
    done, calls = host.boot(BUCKET)
    assert (done.returncode, calls) == (0, ["mount /data"])


def test_boot_takes_tls_where_its_client_is(host):
    """A host that gets the client later keeps what it was launched with: one entry for one mount point."""
    host.tool("mount", host.mounted())
    host.tool("mount.nfs4", "")
    for with_client in (False, True):
        if with_client:
            host.tool("mount.efs", "")
        done, calls = host.boot(EITHER)
        assert (done.returncode, done.stderr) == (0, "")
        assert (host.folder / "fstab").read_text() == host.here(PLAIN).entry + "\n"
    assert calls.count("mount /efs") == 1
    assert not [call for call in calls if call.startswith("apt-get")], "nothing is installed for what is only preferred"
    (host.folder / "fstab").unlink()
    for _boot in range(2):
        assert host.boot(EITHER)[0].returncode == 0
        assert (host.folder / "fstab").read_text() == host.here(TLS).entry + "\n"


def test_boot_installs_what_amazon_linux_has(host):
    host.tool("dnf", f"ln {host.tools}/mount {host.tools}/mount.lustre; ln {host.tools}/mount {host.tools}/mount.efs")
    host.tool("mount", host.mounted())
    done, calls = host.boot(TLS, LUSTRE)
    assert done.returncode == 0
    assert calls == ["dnf install -y -q amazon-efs-utils", "mount /efs", "chown ubuntu: /efs", "mount /fsx", "chown ubuntu: /fsx"]


# Of the controller


def test_tags_tell_what_nodes_mount():
    told = {"deeplearning:lustre-source": LUSTRE_SOURCE, "deeplearning:file-system": "fs-1", "deeplearning:file-system-tls": "preferred"}
    assert storage_tags.told({**told, "Name": "bert-Master"}) == [
        {"kind": "efs", "source": "fs-1", "encrypt_in_transit": None},
        {"kind": "lustre", "source": LUSTRE_SOURCE},
    ]
    assert storage_tags.told({"deeplearning:file-system-tls": "true"}) == [], "nothing is mounted"
    assert storage_tags.told({"deeplearning:file-system": "fs-1", "deeplearning:file-system-tls": "none"}) == [
        {"kind": "efs", "source": "fs-1"}
    ], "a value that is none says nothing"


@pytest.mark.parametrize(
    ("source", "listed", "read"),
    [
        ("s3://sets", None, "arn:aws-cn:s3:::sets/*"),
        ("s3://sets/images", {"StringLike": {"s3:prefix": "images/*"}}, "arn:aws-cn:s3:::sets/images/*"),
    ],
)
def test_the_role_of_the_nodes_may_read_what_is_mounted_and_no_more(source, listed, read):
    listing, reading = bucket_component.statements(source, partition_of("cn-north-1"))
    assert (listing["Action"], listing["Resource"]) == (["s3:ListBucket"], ["arn:aws-cn:s3:::sets"])
    assert listing.get("Condition") == listed
    assert (reading["Action"], reading["Resource"]) == (["s3:GetObject"], [read])


def test_nodes_know_no_more_of_storage_than_mounts():
    """Tags and boot script are those of any mounts, once the ids in them are known."""
    tape, disk = Address("tape", "main"), Address("disk", "main")

    def mount(kind, address, mount_point):
        return Mount(
            kind,
            mount_point,
            "mount_point",
            {kind: Ref(address)},
            Computed(lambda first, second: mounts.lustre(f"{first}@tcp:/{second}", mount_point), (Ref(address), Ref(address, "name"))),
        )

    settings = SimpleNamespace(mounts=(mount("tape", tape, "/tape"), mount("disk", disk, "/disk")), login_user="ubuntu")
    known = {address: Found(address, f"id-{address.kind}", {}, {"name": f"name-{address.kind}"}) for address in (tape, disk)}
    assert resolve(node_definition._storage_tags(settings), known) == {"tape": "id-tape", "disk": "id-disk"}
    script = json.loads(resolve(node_definition._user_data(settings), known).split("\n", 1)[1])["write_files"][0]["content"]
    for kind in ("tape", "disk"):
        assert f"add 'id-{kind}@tcp:/name-{kind} /{kind} lustre" in script
    assert "known after apply" in repr(resolve(node_definition._user_data(settings), {tape: known[tape]}))


def test_every_kind_of_storage_is_known_everywhere():
    """Its component mounts it, its tags tell of it, and the module describes it."""
    assert set(storage_tags.KINDS) == set(mounting.KINDS)
    assert len(STORAGE) == len(storage_tags.KINDS)


ALLOW, DENY = definition.policy_document(tls_required=True)["Statement"]


@pytest.mark.parametrize(
    ("statements", "same"),
    [
        ([ALLOW, DENY], True),
        ([DENY, ALLOW], True),
        ([{**ALLOW, "Action": ALLOW["Action"][::-1], "Resource": "arn:aws:elasticfilesystem:us-east-1:1:file-system/fs-1"}, DENY], True),
        ([ALLOW, {**DENY, "Principal": "*", "Action": ["*"], "Condition": {"Bool": {"aws:securetransport": [False]}}}], True),
        ([{**ALLOW, "Sid": "mine"}, {**DENY, "Sid": "2"}], True),
        ([ALLOW], False),
        ([{**ALLOW, "Action": ALLOW["Action"][:2]}, DENY], False),
        ([{**ALLOW, "Principal": {"AWS": "arn:aws:iam::1:root"}}, DENY], False),
        ([{**ALLOW, "Condition": {}}, DENY], False),
        ([ALLOW, {**DENY, "Condition": {"Bool": {"aws:SecureTransport": "true"}}}], False),
        ([ALLOW, {**DENY, "Effect": "Allow"}], False),
        ([ALLOW, DENY, {**ALLOW, "NotPrincipal": {"AWS": "1"}}], False),
    ],
)
def test_policies_are_compared_by_what_they_mean(statements, same):
    wanted = definition.comparable_policy({"Statement": [ALLOW, DENY]})
    assert (definition.comparable_policy({"Version": "2008-10-17", "Statement": statements}) == wanted) is same
    assert definition.comparable_policy({"Statement": ALLOW}) == definition.comparable_policy({"Statement": [ALLOW]})


@pytest.mark.parametrize(
    ("targets", "same_vpc", "one_zone", "address"),
    [
        ({"a": "10.0.0.1", "b": "10.0.0.2"}, True, None, ""),
        ({}, False, None, ""),
        ({"a": "10.0.0.1", "b": "10.0.0.2"}, False, None, "10.0.0.2"),
        ({"c": "10.0.0.3", "a": "10.0.0.1"}, False, None, "10.0.0.1"),
        ({"a": "10.0.0.1"}, True, "a", "10.0.0.1"),
        ({"b": "10.0.0.2"}, True, "b", ""),
    ],
)
def test_host_address(targets, same_vpc, one_zone, address):
    assert definition.host_address(targets, ["b"], same_vpc=same_vpc, one_zone=one_zone) == address


FAILED = {
    "FileSystemId": "fs-0123456789abcdef0",
    "FileSystemType": "LUSTRE",
    "Lifecycle": "FAILED",
    "StorageCapacity": 1200,
    "VpcId": "vpc-1",
    "SubnetIds": ["subnet-1"],
    "NetworkInterfaceIds": ["eni-1"],
    "DNSName": "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
    "ResourceARN": "arn:aws:fsx:us-east-1:123456789012:file-system/fs-0123456789abcdef0",
    "LustreConfiguration": {"DeploymentType": "SCRATCH_2", "MountName": "abcdefgh"},
}


def test_a_lustre_file_system_that_has_failed_may_have_lost_its_interfaces():
    class AwsClient:
        cluster = "bert"

        def retrieve(self, service, _operation, _key, **arguments):
            if service == "ec2":
                assert arguments.keys() == {"Filters"}, "ids that are gone are an error anywhere else"
            return [FAILED] if service == "fsx" else []

        def comparable_tags(self, _tags):
            return {}

    (found,) = lustre_resources.read(Request(AwsClient(), {"lustre_file_system_id": FAILED["FileSystemId"]}), [])
    assert (found.attributes["address"], found.attributes["state"]) == (None, "FAILED")


def test_the_policies_of_a_link_change_in_place():
    """In AWS's own words: the request is checked against the API's model."""
    client = botocore.session.get_session().create_client("fsx", region_name="us-east-1")
    found = Found(data_repository("/train"), "dra-0123456789abcdef0", {}, {"arn": "arn:aws:fsx:us-east-1:123456789012:association/a/b"})
    policies = {"AutoImportPolicy": {"Events": []}, "AutoExportPolicy": {"Events": ["CHANGED", "DELETED", "NEW"]}}
    properties = {"imports": frozenset(), "exports": EVENTS}
    with Stubber(client) as stub:
        stub.add_response("update_data_repository_association", {}, {"AssociationId": found.id, "S3": policies})
        lustre_resources.KINDS[1].update(SimpleNamespace(client=lambda _service: client), found, properties, frozenset({"exports"}))
        stub.assert_no_pending_responses()


@pytest.mark.parametrize(
    ("imports", "exports", "sent"),
    [
        (EVENTS, frozenset(), {"S3": {"AutoImportPolicy": {"Events": sorted(EVENTS)}}}),
        (frozenset(), frozenset(), {}),
    ],
)
def test_a_new_link_names_only_what_it_carries_over(imports, exports, sent):
    assert lustre_resources._created_policies({"imports": imports, "exports": exports}) == sent


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (file_system_resources.KINDS[0], {"FileSystems": [{"LifeCycleState": "error"}]}),
        (file_system_resources.KINDS[3], {"MountTargets": [{"LifeCycleState": "error"}]}),
    ],
)
def test_a_state_that_never_passes_is_not_waited_for(kind, answer):
    class AwsClient:
        def client(self, _service):
            return SimpleNamespace(describe_file_systems=None, describe_mount_targets=None)

        def once_visible(self, *_call, **_arguments):
            return answer

        def wait_until(self, _what, probe, timeout):
            return probe()

    with pytest.raises(ClusterError, match=r"fs-1 is in the state 'error', which does not pass. Delete it, and run again"):
        kind.settle(AwsClient(), Found(definition.FILE_SYSTEM, "fs-1"))


@pytest.mark.parametrize(("state", "same"), [("Available", "available"), ("partial", "available"), ("Failed", "failed")])
def test_an_endpoint_that_works_in_part_counts_as_available(state, same):
    assert vpc_endpoints._endpoint_state({"State": state}) == same


@pytest.mark.parametrize("state", ["Partial", "partial", "available", "Pending", "pendingAcceptance"])
def test_an_endpoint_that_works_in_part_is_found_again(state):
    """Else the next run makes a second one, and a deletion leaves it."""
    tags = [{"Key": "deeplearning:component", "Value": "network"}, {"Key": "deeplearning:key", "Value": "ssm"}]
    shared = {"VpcEndpointType": "Interface", "VpcId": "vpc-1", "ServiceName": "ssm", "Tags": tags}
    described = [
        {**shared, "VpcEndpointId": f"vpce-{each}", "State": each} for each in (state, "Deleting", "deleted", "Failed", "Rejected")
    ]

    class AwsClient:
        def filters(self, *more):
            return list(more)

        def comparable_tags(self, tags):
            return tags

        def retrieve(self, _service, _operation, _key, **arguments):
            return [item for item in described if all(item["State"].lower() in each["Values"] for each in arguments["Filters"])]

        def facts(self, _service, _operation, _key, **_arguments):
            return described

    assert [found.id for found in vpc_endpoints.read(AwsClient())] == [f"vpce-{state}"]
    assert [item["State"] for item in adopted.endpoints(AwsClient(), "vpc-1")] == [state]


def test_another_run_has_another_token():
    """FSx may answer the token of something deleted with the thing that is gone."""
    runs = [SimpleNamespace(cluster="bert", run_id=run_id) for run_id in ("a", "a", "b")]
    first, again, other = (lustre_resources._token(run, {"FileSystemPath": "/train"}) for run in runs)
    assert first == again != other
