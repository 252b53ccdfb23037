"""Limits on what a training script can do on its hosts (H2 of the security review)."""

from __future__ import annotations

import json
import re
import shlex
import subprocess

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.munge.key import DROP_IN
from gpu_tools import kernel_log, program
from hosts.cluster import job_cluster
from local_cloud.testing import wait_until

USER = {"launcher": "command", "python": "/usr/bin/python3"}

# Tries each action that a job must not be able to do, and records which actions worked.
HOSTILE = """
    import json, os, pathlib, socket, subprocess, sys

    def runs(*command, **options):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, **options)
        return done.returncode == 0

    def works(action):
        try:
            return action() is not False
        except (OSError, subprocess.SubprocessError):
            return False

    def ask_for_health_checks():
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect("/run/deeplearning/health.sock")
            return connection.makefile().read()

    def replace(path, text="mine"):
        pathlib.Path(path + ".mine").write_text(text)
        os.replace(path + ".mine", path)

    # Crashes in a file with this name, which the kernel writes to its log.
    xid = "NVRM: Xid (PCI:0000:64:00): 74, x"
    crash = "; ".join([
        "import ctypes, mmap, sys",
        "file = open(sys.argv[1], 'w+b', buffering=0)",
        "file.write(bytes(4096))",
        "code = mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)",
        "ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()",
    ])

    job = os.environ["DEEPLEARNING_JOB_DIRECTORY"]
    code = os.path.dirname(os.path.abspath(__file__))
    attempts = {
        "sudo": lambda: runs("sudo", "-n", "true"),
        "su": lambda: runs("su", "ubuntu", "-c", "true"),
        "see the login user's home": lambda: os.listdir("/home/ubuntu"),
        "see root's home": lambda: os.listdir("/root") or False,
        "read the SSH key": lambda: open("/home/ubuntu/.ssh/id_ed25519").read(),
        "read the cluster's SSH key": lambda: open("/etc/ssh/deeplearning/user_ed25519").read(),
        "reach the next host by SSH": lambda: runs("ssh", "-o", "BatchMode=yes", "ubuntu@deeplearning-worker2", "true"),
        "write environments": lambda: pathlib.Path("/efs/environments/pytorch/bin/python").write_text("#!/bin/sh"),
        "make an environment": lambda: os.mkdir("/efs/environments/mine"),
        "write another user's job": lambda: pathlib.Path("/efs/jobs/theirs/status/rank0.json").write_text("{}"),
        "make a job": lambda: os.mkdir("/efs/jobs/next"),
        "change the code": lambda: pathlib.Path(__file__).write_text("mine"),
        "replace the code": lambda: replace(os.path.abspath(__file__)),
        "move the code": lambda: os.rename(code, job + "/old"),
        "replace the description": lambda: replace(job + "/job.json"),
        "change the unit": lambda: runs("systemctl", "set-property", "--runtime", "ssh.service", "CPUWeight=1"),
        "start a unit": lambda: runs("systemd-run", "true"),
        "speak NFS to a mount target": lambda: bool(socket.create_connection(("deeplearning-worker2", 2049), 5)),
        "speak NFS to this host's first tunnel": lambda: bool(socket.create_connection(("127.0.0.1", 20049), 5)),
        "speak NFS to this host's last tunnel": lambda: bool(socket.create_connection(("127.0.0.1", 20449), 5)),
        "reach another port": lambda: bool(socket.create_connection(("127.0.0.1", 20048), 5)),
        "reach the system's bus": lambda: socket.socket(socket.AF_UNIX).connect("/run/dbus/system_bus_socket") is None,
        "reach MUNGE": lambda: socket.socket(socket.AF_UNIX).connect("/run/munge/munge.socket.2") is None,
        "forge an Xid error": lambda: runs(sys.executable, "-c", crash, xid, cwd=pathlib.Path.home()) or "Xid" in ask_for_health_checks(),
        "forge a health finding": lambda: replace("/run/deeplearning/health/findings.json"),
        "change the health checks": lambda: replace("/var/lib/deeplearning-node-health/health.zip"),
        "change the exclusions": lambda: replace("/var/lib/deeplearning-node-health/exclusions.json", "{}"),
        "read the parameters of jobs that are kept for a reboot": lambda: os.listdir("/run/deeplearning/rejoin"),
        "reboot the host": lambda: runs("systemctl", "start", "deeplearning_health_reboot.service"),
        "start the host's jobs again": lambda: runs("systemctl", "start", "deeplearning_rejoin.service"),
        "hold the lock": lambda: open("/run/deeplearning.lock"),
        "write a trusted folder": lambda: pathlib.Path("/usr/local/bin/mine").touch(),
        "write results beside the code": lambda: pathlib.Path("results.txt").touch(),
        "write results into the job's directory": lambda: pathlib.Path(job, "results").mkdir(exist_ok=True),
        "write checkpoints": lambda: pathlib.Path(os.environ["DEEPLEARNING_CHECKPOINT_DIRECTORY"], "1").touch(),
        "write at home": lambda: pathlib.Path.home().joinpath("cache").touch(),
        "write to /tmp": lambda: pathlib.Path("/tmp/mine").touch(),
    }
    seen = {name: works(action) for name, action in attempts.items()}
    status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
    seen.update(uid=os.getuid(), groups=os.getgroups(), home=str(pathlib.Path.home()), privileges=status["NoNewPrivs"] == "0")
    print(json.dumps(seen))
"""

# What the kernel writes about the crash. The journal of a container does not contain kernel messages, so a stand-in shows them.
CRASH = (
    "python3[31497]: segfault at 0 ip 00007f8e7496a000 sp 00007fff001efb48 error 6 in NVRM: Xid (PCI:0000:64:00): 74, x"
    "[0,7f8e7496a000+1000] likely on CPU 1 (core 1, socket 0)"
)

# Listens on MUNGE's socket path, and lets every user connect
MUNGE = """
import os, socket, time
listener = socket.socket(socket.AF_UNIX)
listener.bind("/run/munge/munge.socket.2")
os.chmod("/run/munge/munge.socket.2", 0o777)
listener.listen()
time.sleep(100000)
""".strip().replace("\n", "; ")
# Settings of munge.service in the package, and those of the module munge_key
MUNGE_DIRECTORY = ["RuntimeDirectory=munge", *(line for line in DROP_IN.splitlines() if line.startswith("RuntimeDirectory"))]
CONNECT = "import socket; socket.socket(socket.AF_UNIX).connect('/run/munge/munge.socket.2')"

ALLOWED = {
    "reach another port",
    "write results beside the code",
    "write results into the job's directory",
    "write checkpoints",
    "write at home",
    "write to /tmp",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with job_cluster(tmp_path_factory.mktemp("user"), [], count=2) as result:
        first = result.hosts[0]
        first.ssh("mkdir -p /efs/environments/pytorch/bin && touch /efs/environments/pytorch/bin/python")
        public = ""
        for host in result.hosts:
            public += host.ssh("ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519 && cat ~/.ssh/id_ed25519.pub").stdout
            host.ssh("sudo install -D -m 600 -o ubuntu -g ubuntu ~/.ssh/id_ed25519 /etc/ssh/deeplearning/user_ed25519")
            host.ssh("sudo useradd --create-home --uid 2001 researcher")
        for host in result.hosts:
            host.ssh(f"cat >> ~/.ssh/authorized_keys <<'END'\n{public}END\n")
        first.ssh("ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new deeplearning-worker2 true")  # SSH works for the login user
        done = result.train("theirs", "print('hello')\n", user="researcher", **USER)
        assert done.returncode == 0, done.stdout + done.stderr
        assert first.ssh("stat -c %U /efs/jobs/theirs/status/rank0.json").stdout == "researcher\n"
        yield result


def test_a_script_can_do_its_work_and_nothing_else(cluster):
    for host in cluster.hosts:
        for port in (2049, 20048, 20049, 20449):
            host.ssh(f"sudo systemd-run --quiet --unit=listener-{port} python3 -m http.server {port}")
    for host in cluster.hosts:
        for port in (2049, 20049, 20449):  # other users can use these ports
            host.ssh(f"for i in $(seq 50); do curl -sf http://deeplearning-worker2:{port} >/dev/null && exit; sleep 0.2; done; exit 1")
        host.ssh("sudo install -d -m 755 /run/munge /run/deeplearning /run/deeplearning/health")
        host.ssh(f"sudo systemd-run --quiet --unit=munge-listener python3 -c {shlex.quote(MUNGE)}")
        # Any other user can connect
        host.ssh(f"for i in $(seq 50); do python3 -c {shlex.quote(CONNECT)} && exit; sleep 0.2; done; exit 1")
        journal = program(("'--dmesg --boot'*", kernel_log(CRASH, CRASH.replace("NVRM", "\n[52782.545021] NVRM")), 0))
        host.ssh(f"printf %s {shlex.quote(journal)} | sudo install -m 755 /dev/stdin /usr/local/sbin/journalctl")
    result = cluster.train("hostile", HOSTILE, restarts=1, reboot=True, **USER)
    assert result.returncode == 0, result.stdout + result.stderr
    for rank in (0, 1):
        seen = json.loads(cluster.read(f"/efs/jobs/hostile/logs/rank{rank}.log"))
        assert (seen.pop("uid"), seen.pop("groups"), seen.pop("home")) == (61000, [61000], "/var/lib/deeplearning-jobs")
        assert {name for name, worked in seen.items() if worked} == ALLOWED
        cluster.hosts[rank].ssh("sudo sh -ec 'rm /usr/local/sbin/journalctl; ls /var/lib/deeplearning-jobs/NVRM*'")
    assert cluster.read("/efs/jobs/hostile/code/hostile.py").startswith("\nimport json")
    cluster.hosts[0].ssh("systemctl cat deeplearning_health_reboot.service deeplearning_rejoin.service deeplearning_health_periodic.timer")
    assert cluster.hosts[0].ssh("sudo stat -c %a /run/deeplearning/rejoin").stdout == "700\n"


@pytest.mark.exhaustive
def test_a_host_without_nftables_says_what_a_script_can_do(cluster):
    cluster.hosts[0].ssh("sudo mv /usr/sbin/nft /usr/sbin/nft.away")
    try:
        done = cluster.train("trusted", "print('hello')\n", **USER)
    finally:
        cluster.hosts[0].ssh("sudo mv /usr/sbin/nft.away /usr/sbin/nft")
    assert done.returncode == 0, done.stdout + done.stderr
    (warning,) = re.findall(r"\[WARNING\]: (.*?nftables on this host\.)", " ".join((done.stdout + done.stderr).split()))
    assert "jobs-worker1: Processes of user 'deeplearning' can use NFS directly" in warning, "the other host does not warn"


def test_the_login_user_reads_and_writes_what_belongs_to_a_job(cluster):
    cluster.train("read", "print('hello')\n", **USER)
    first = cluster.hosts[0]
    first.ssh("touch /efs/jobs/read/report.html && cat /efs/jobs/read/status/rank0.json /efs/jobs/read/logs/rank0.log")
    owners = first.ssh("cd /efs/jobs/read && stat -c '%n %U:%G %a' . code code/read.py job.json logs status checkpoints tensorboard").stdout
    assert owners.splitlines() == [
        ". ubuntu:deeplearning 1775",
        "code ubuntu:deeplearning 1775",
        "code/read.py ubuntu:deeplearning 644",
        "job.json ubuntu:deeplearning 644",
        "logs deeplearning:deeplearning 755",
        "status deeplearning:deeplearning 755",
        "checkpoints deeplearning:deeplearning 755",
        "tensorboard deeplearning:deeplearning 755",
    ]


def test_nobody_logs_in_as_the_jobs_user(cluster):
    """A key that a script has added gives no access, and the user's password is locked."""
    public = cluster.hosts[0].key_file.with_suffix(".pub").read_text().strip()
    script = f"""
        import os, pathlib
        folder = pathlib.Path.home() / ".ssh"
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / "authorized_keys").write_text("{public}\\n")
        (folder / "authorized_keys").chmod(0o600)
    """
    assert cluster.train("door", script, **USER).returncode == 0
    host = cluster.hosts[0]
    command = ["ssh", "-i", str(host.key_file), "-oBatchMode=yes", "-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null"]
    done = subprocess.run([*command, f"deeplearning@{host.private_ip}", "true"], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode != 0
    assert host.ssh("sudo passwd -S deeplearning").stdout.split()[1] == "L"


@pytest.mark.exhaustive
def test_munge_stays_hidden_if_it_starts_and_restarts_while_a_job_runs(cluster):
    script = """
        import os, pathlib, socket, time
        folder = pathlib.Path(os.environ["DEEPLEARNING_JOB_DIRECTORY"])
        (folder / ("ready" + os.environ["DEEPLEARNING_RANK"])).touch()
        while not (folder / "go").exists():
            time.sleep(0.1)
        for number in range(20):
            try:
                socket.socket(socket.AF_UNIX).connect("/run/munge/munge.socket.2")
                print("connected")
            except OSError as error:
                print(error.strerror)
            time.sleep(0.1)
    """
    host = cluster.hosts[1]
    host.ssh("sudo systemctl stop munge-listener; sudo rm -rf /run/munge", check=False)
    cluster.start("sees-munge", script, gpus=[], **USER)
    wait_until(lambda: cluster.hosts[0].ssh("ls /efs/jobs/sees-munge").stdout.count("ready") == 2)
    properties = " ".join(f"--property={each}" for each in MUNGE_DIRECTORY)
    host.ssh(f"sudo systemd-run --quiet --unit=munge-restarts {properties} python3 -c {shlex.quote(MUNGE)}")
    connect = f"for i in $(seq 50); do python3 -c {shlex.quote(CONNECT)} && exit; sleep 0.2; done; exit 1"
    host.ssh(connect)
    host.ssh("sudo rm /run/munge/munge.socket.2; sudo systemctl restart munge-restarts")
    host.ssh(connect)
    cluster.hosts[0].ssh("sudo touch /efs/jobs/sees-munge/go")
    wait_until(lambda: cluster.info("sees-munge")["state"] == "succeeded")
    assert set(cluster.read("/efs/jobs/sees-munge/logs/rank1.log").splitlines()) <= {"Permission denied", "No such file or directory"}
    host.ssh("sudo systemctl stop munge-restarts")


@pytest.mark.exhaustive
def test_all_units_of_a_host_together_leave_processes_for_root(cluster):
    cluster.train("many", "print('hello')\n", **USER)
    show = "systemctl show --value --property"
    together, parent, most = (
        cluster.hosts[0]
        .ssh(f"{show}=TasksMax deeplearning.slice; {show}=Slice deeplearning-many.slice; cat /proc/sys/kernel/pid_max")
        .stdout.split()
    )
    assert parent == "deeplearning.slice"
    assert 0 < int(together) <= 0.8 * int(most)


@pytest.mark.exhaustive
def test_a_suspended_supervisor_does_not_lift_the_time_limit(cluster):
    script = """
        import os, signal, time
        os.kill(os.getppid(), signal.SIGSTOP)
        time.sleep(600)
    """
    cluster.start("suspends", script, gpus=[], time_limit=5, stop_timeout=1, heartbeat_timeout=5, **USER)
    wait_until(lambda: len(cluster.processes("/efs/jobs/suspends/code")) == 2)
    wait_until(lambda: cluster.processes("/efs/jobs/suspends/code") == [])


@pytest.mark.exhaustive
def test_the_login_user_can_run_jobs_as_before(cluster):
    script = """
        import os, pathlib, subprocess
        subprocess.run(["sudo", "-n", "true"], check=True)
        print(sorted(os.listdir(pathlib.Path.home() / ".ssh"))[0], os.environ["USER"])
    """
    result = cluster.train("as-before", script, user="{{ ansible_user }}", **USER)
    assert result.returncode == 0, result.stdout + result.stderr
    assert cluster.read("/efs/jobs/as-before/logs/rank0.log") == "authorized_keys ubuntu\n"
    assert cluster.hosts[0].ssh("stat -c '%U %a' /efs/jobs/as-before /efs/jobs/as-before/code").stdout == "ubuntu 755\n" * 2


@pytest.mark.exhaustive
def test_an_environment_in_the_login_users_home_is_found(cluster):
    """Images and the role python_environment create environments in home directories, which are private on most distributions."""
    for host in cluster.hosts:
        host.ssh("chmod 0700 ~ && test -x ~/environments/mine/bin/python || python3 -m venv ~/environments/mine")
    python = "/home/ubuntu/environments/mine/bin/python"
    script = """
        import os, sys
        print(sys.prefix, os.listdir("/home/ubuntu"), os.access(sys.prefix, os.W_OK))
    """
    result = cluster.train("at-home", script, **{**USER, "python": python})
    assert result.returncode == 0, result.stdout + result.stderr
    assert cluster.read("/efs/jobs/at-home/logs/rank1.log") == "/home/ubuntu/environments/mine ['environments'] False\n"


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ("nobody-here", "user: 'nobody-here' does not exist on this host. Specify a user with the same ID on all hosts"),
        pytest.param(
            "{{ 'researcher' if inventory_hostname.endswith('1') else 'nobody' }}",
            "has uid 65534 on this host and uid 2001 on the first host",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_a_user_that_cannot_be_used_is_refused(cluster, user, message):
    result = cluster.train("nobodys", "print('hello')\n", user=user, **USER)
    assert result.returncode != 0
    assert message in result.stdout.replace("\\", "")
    cluster.hosts[0].ssh("sudo rm -rf /efs/jobs/nobodys")


@pytest.mark.exhaustive
def test_files_that_are_the_jobs_users_cannot_end_the_next_start(cluster):
    """A job replaces the file that specifies its process.

    Root must not read this file when another job starts (L3 of the security review).
    """
    script = """
        import fcntl, glob, os, pathlib, time
        spec, = glob.glob("/run/deeplearning/jobs/breaks-*/spec.json")
        os.unlink(spec)
        pathlib.Path(spec).write_text('{"job": 7}')
        (pathlib.Path(os.environ["DEEPLEARNING_JOB_DIRECTORY"]) / ("ready" + os.environ["DEEPLEARNING_RANK"])).touch()
        time.sleep(600)
    """
    cluster.start("breaks", script, gpus=[], **USER)
    wait_until(lambda: cluster.hosts[0].ssh("ls /efs/jobs/breaks").stdout.count("ready") == 2)
    result = cluster.train("next", "print('hello')\n", **USER)
    assert result.returncode == 0, result.stdout + result.stderr
    cluster.stop("breaks")
    for host in cluster.hosts:
        assert host.ssh("sudo stat -c %a /run/deeplearning.lock /run/deeplearning/started").stdout == "600\n700\n"


@pytest.mark.exhaustive
def test_mpi_reaches_other_hosts_without_a_key(cluster):
    """The distribution's Open MPI runs as a user who cannot log in to any host. When the job ends, its processes on other hosts end as
    well.
    """
    host = "echo $OMPI_COMM_WORLD_RANK $DEEPLEARNING_HOST $(id -un) $TOKEN"
    variables = {"launcher": "mpi", "python": "/usr/bin/python3", "processes_per_host": 2, "secrets": {"TOKEN": "t0ken"}}
    result = cluster.train("ranks", "", command=["sh", "-c", host], **variables)
    assert result.returncode == 0, result.stdout + result.stderr
    said = sorted(line.split(">:", 1)[1] for line in cluster.read("/efs/jobs/ranks/logs/mpirun.log").splitlines() if ">:" in line)
    assert said == [f"{rank} deeplearning-worker{1 + rank // 2} deeplearning t0ken" for rank in range(4)]

    cluster.start("waits", "", command=["sleep", "900"], **variables)
    wait_until(lambda: len([line for line in cluster.members("waits") if re.search(r": +\d+ sleep 900$", line)]) == 4)
    second = cluster.hosts[1]
    groups = second.ssh("cat /proc/$(pgrep -o sleep)/cgroup; ss -Htlnp 'sport >= 20500 and sport < 32000'").stdout
    assert "deeplearning-waits-orted1.service" in groups
    assert second.private_ip + ":" in groups
    # No secret and no key is visible to other users
    key = json.loads(second.ssh("sudo cat /run/deeplearning/jobs/waits-orted1/spec.json").stdout)["key"]
    for each in cluster.hosts:
        visible = each.ssh("ps -eo args; systemctl show 'deeplearning-waits-*'; journalctl --no-pager").stdout
        assert key not in visible
    assert cluster.hosts[0].ssh(f"sudo grep -r {key} /efs/jobs", check=False).stdout == ""
    cluster.stop("waits")
    assert cluster.members("waits") == []
