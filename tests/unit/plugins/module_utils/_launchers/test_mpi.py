"""Tests of the launcher mpi: mpirun on the first host, and a process for its daemon on each of the other hosts."""

from __future__ import annotations

import os
import subprocess

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.base import Culprit, Host, LaunchError
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.mpi import LAUNCHER, RANK, culprit
from ansible_collections.deeplearning.cluster.plugins.module_utils._launchers.ports import port

from .conftest import make_hosts, program

OPTIONS = {"mpirun": "mpirun", "arguments": []}


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize(("gpus", "ranks"), [(0, 1), (1, 1), (2, 2), (8, 8)])
def test_mpirun_starts_one_rank_per_gpu(count, gpus, ranks):
    lead, *others = LAUNCHER.plan(program(options=OPTIONS, arguments=["--epochs", "two words", ""]), make_hosts(count, gpus))
    assert (lead.host, lead.rank, lead.name, lead.part) == ("deeplearning-worker1", 0, "mpirun", "worker")
    assert lead.argv == [
        *("mpirun", "-np", str(count * ranks), "--hostfile", "/run/deeplearning/jobs/digits-mpirun/hostfile"),
        *("--map-by", "slot", "--bind-to", "none", "--tag-output"),
        *("sh", "-c", RANK, "rank"),
        *("/opt/pytorch/bin/python", "/efs/jobs/digits/code/train.py", "--epochs", "two words", ""),
    ]
    assert (list(lead.ranks), lead.tagged) == (list(range(count * ranks)), True)
    assert {tuple(process.ranks) for process in others} <= {()}
    assert [(process.host, process.rank, process.name, process.part, process.argv) for process in others] == [
        (f"deeplearning-worker{n + 1}", n, f"orted{n}", "service", []) for n in range(1, count)
    ]
    threads = {"OMP_NUM_THREADS": "1"} if ranks > 1 else {}
    shown = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(gpus)))} if gpus else {}
    for process in [lead, *others]:
        assert process.environment == {
            "OMPI_MCA_plm_rsh_agent": "sh /run/deeplearning/jobs/digits-mpirun/supervisor rsh",
            "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
            "OMPI_MCA_oob_tcp_if_include": "ens5",
            "OMPI_MCA_orte_tmpdir_base": "/dev/shm",
            "PRTE_MCA_plm_ssh_agent": "sh /run/deeplearning/jobs/digits-mpirun/supervisor rsh",
            "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
            "PRTE_MCA_oob_tcp_if_include": "ens5",
            "PRTE_MCA_prte_tmpdir_base": "/dev/shm",
            "OMPI_MCA_btl_tcp_if_include": "ens5",
            "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
            "MASTER_ADDR": "deeplearning-worker1",
            "MASTER_PORT": str(port("digits")),
            "DEEPLEARNING_HOST": process.host,
            "GLOO_SOCKET_IFNAME": "ens5",
            "NCCL_SOCKET_IFNAME": "=ens5",
            **threads,
            **shown,
        }


def test_options_choose_mpirun_and_add_arguments():
    options = {"mpirun": "/opt/amazon/openmpi/bin/mpirun", "arguments": ["--mca", "pml", "ob1"]}
    argv = LAUNCHER.plan(program(options=options, command=["./solver"], arguments=["x"]), make_hosts(1, 0))[0].argv
    assert argv[0] == "/opt/amazon/openmpi/bin/mpirun"
    assert argv[-9:] == ["--mca", "pml", "ob1", "sh", "-c", RANK, "rank", "./solver", "x"]


def test_hosts_may_have_different_numbers_of_ranks():
    hosts = [*make_hosts(1, 8), Host("deeplearning-worker2", "10.0.0.2", 2, (3, 5), "ens5")]
    lead, other = LAUNCHER.plan(program(options=OPTIONS), hosts)
    assert lead.argv[lead.argv.index("-np") + 1] == "10"
    assert other.environment["CUDA_VISIBLE_DEVICES"] == "3,5"
    with pytest.raises(LaunchError, match="4 processes cannot share the 2 GPUs of deeplearning-worker2 equally"):
        LAUNCHER.plan(program(options=OPTIONS, processes_per_host=4), hosts)


@pytest.mark.parametrize(
    ("hosts", "network"),
    [
        ([("10.0.0.10", "ens5"), ("10.0.200.7", "ens5")], "ens5"),
        ([("10.0.0.10", "ens5"), ("10.0.0.11", "ens32")], "10.0.0.10/31"),
        ([("172.31.0.10", "ens5"), ("172.31.77.20", "ens32"), ("172.31.3.4", "ens5")], "172.31.0.0/17"),
    ],
)
def test_mpi_talks_over_the_network_of_the_cluster(hosts, network):
    hosts = [Host(f"deeplearning-worker{n}", address, n, (), interface) for n, (address, interface) in enumerate(hosts, 1)]
    for process, host in zip(LAUNCHER.plan(program(options=OPTIONS), hosts), hosts, strict=True):
        for name in ("OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include", "PRTE_MCA_oob_tcp_if_include"):
            assert process.environment[name] == network
        assert process.environment["NCCL_SOCKET_IFNAME"] == "=" + host.interface


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        (["true"], 0, ""),
        (["sh", "-c", 'exit "$1"', "two words", "3"], 3, "rank 5 on deeplearning-worker2 ended with exit status 3\n"),
        (["sh", "-c", "kill -KILL $$"], 137, "rank 5 on deeplearning-worker2 ended with exit status 137\n"),
        # mpirun also sends the signal to the rank's whole process group.
        (["sh", "-c", "kill -TERM 0; sleep 9"], 143, ""),
        (["sh", "-c", 'trap "echo saved >&2; exit 0" TERM; kill -TERM 0; :'], 0, "saved\n"),
    ],
)
def test_a_rank_that_fails_says_which_it_is_and_where(command, status, said):
    environment = {"PATH": os.environ["PATH"], "OMPI_COMM_WORLD_RANK": "5", "DEEPLEARNING_HOST": "deeplearning-worker2"}
    argv = ["sh", "-c", RANK, "rank", *command]
    result = subprocess.run(argv, env=environment, capture_output=True, text=True, start_new_session=True, timeout=60, check=False)
    assert result.returncode == status
    # Some shells also print which signal killed a command.
    assert "".join(line for line in result.stderr.splitlines(keepends=True) if line.startswith(("rank", "saved"))) == said


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["step 1", "[1,13]<stderr>:rank 13 on deeplearning-worker2 ended with exit status 9"], Culprit("13", 9, 1)),
        (["rank 3 on w1 ended with exit status 137", "rank 4 on w2 ended with exit status 1"], Culprit("3", 137, 0)),
        (["rank 3 on w1 ended with exit status", "rank x on w1 ended with exit status 1"], None),
        ([], None),
    ],
)
def test_the_first_rank_that_says_it_has_failed(lines, expected):
    assert culprit(lines) == expected
