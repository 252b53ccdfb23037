"""Tests of what the messages of exceptions say about the cause of a failure."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._job import error_messages, failure_causes


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("[Errno 28] No space left on device: '/fsx/7.pt'", failure_causes.DISK_FULL),
        ("[Errno 122] Disk quota exceeded", failure_causes.DISK_FULL),
        ("[Errno 30] Read-only file system", failure_causes.DISK_FULL),
        ("basic_ios::clear: iostream error", failure_causes.DISK_FULL),
        ("[enforce fail at inline_container.cc:672] . unexpected pos 8576 vs 8468", failure_causes.DISK_FULL),
        (
            "DataLoader worker (pid 7579) is killed by signal: Bus error. It is possible that the workers are out of shared "
            "memory. Please try to raise your shared memory limit.",
            failure_causes.DISK_FULL,
        ),
        ("CUDA out of memory. Tried to allocate 8.13 GiB (GPU 0; 10.76 GiB total capacity)", failure_causes.GPU_MEMORY),
        ("CUDA error: out of memory", failure_causes.GPU_MEMORY),
        ("Cuda failure 2 'out of memory'", failure_causes.GPU_MEMORY),
        ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 6291456 bytes.", failure_causes.GPU_MEMORY),
        ("OOM when allocating tensor with shape[64,512] and type float on GPU:0", failure_causes.GPU_MEMORY),
        ("cuda runtime error (39) : uncorrectable ECC error encountered at THCCachingHostAllocator.cpp:265", failure_causes.HARDWARE),
        ("CUDA error: uncorrectable NVLink error detected during the execution", failure_causes.HARDWARE),
        ("CUDA error: Invalid access of peer GPU memory over nvlink or a hardware error", failure_causes.HARDWARE),
        ("CUDA error: CUDA-capable device(s) is/are busy or unavailable", failure_causes.HARDWARE),
        ("Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized", failure_causes.HARDWARE),
        ("Error 803: system has unsupported display driver / cuda driver combination", failure_causes.HARDWARE),
        ("CUDA error: unknown error", failure_causes.HARDWARE),
        ("GPU has fallen off the bus", failure_causes.HARDWARE),
        ("Unable to determine the device handle for GPU 0000:64:00.0: GPU is lost.", failure_causes.HARDWARE),
        ("CUDA error: device-side assert triggered", ""),
        ("CUDA error: an illegal memory access was encountered", ""),
        ("CUDA error: unspecified launch failure", ""),
        ("DataLoader worker (pid 7579) is killed by signal: Segmentation fault.", ""),
        ("[Errno 12] Cannot allocate memory", ""),
        ("Connection reset by peer", ""),
        ("", ""),
    ],
)
def test_a_message_can_name_the_cause(message, kind):
    assert error_messages.kind(message) == kind


@pytest.mark.parametrize(
    ("message", "closed"), [("[Errno 104] Connection reset by peer", True), ("[Errno 110] Connection timed out", False)]
)
def test_a_message_can_say_that_a_connection_was_closed(message, closed):
    assert error_messages.is_connection_closed(message) is closed


@pytest.mark.parametrize(
    ("message", "timed_out"),
    [
        ("[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=57)", True),
        ("[PG 0 Rank 144] Heartbeat monitor timed out! Process will be terminated after dumping debug info.", True),
        ("[PG 0 Rank 1] ProcessGroupNCCL's watchdog got stuck for 600 seconds without making progress", True),
        ("Received a dump signal due to a collective timeout from rank 1 and we will try our best to dump the debug info.", True),
        ("[gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete", True),
        ("Rank 1 failed to pass monitoredBarrier in 1800000 ms", True),
        ("DEADLINE_EXCEEDED: Barrier timed out. Id: [Init]Wait_for_all_tasks_to_register::0.", True),
        ("DEADLINE_EXCEEDED: GetKeyValue() timed out with key: cuda:local_topology/cuda/1 and duration: 2m", True),
        ("DEADLINE_EXCEEDED: Deadline Exceeded", True),
        ("504 Deadline Exceeded", False),
        ("Connection reset by peer", False),
        ("The read operation timed out", False),
    ],
)
def test_a_message_can_say_that_ranks_have_waited_for_each_other_too_long(message, timed_out):
    assert error_messages.is_timeout(message) is timed_out


@pytest.mark.parametrize(
    ("message", "is_certain"),
    [
        ("WeightsUnpickler error: Unsupported global: GLOBAL argparse.Namespace was not an allowed global by default. Please use", True),
        ("Automatic adjustment of ZeRO's optimizer state partitioning with a new world size is not currently supported.", True),
        ("CUDA error: no kernel image is available for execution on the device", True),
        ("The NVIDIA driver on your system is too old (found version 12040). Please update your GPU driver", True),
        ("CUDA driver version is insufficient for CUDA runtime version", True),
        ("CUDA error: the provided PTX was compiled with an unsupported toolchain.", True),
        ("Torch not compiled with CUDA enabled", True),
        ("Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000", True),
        ("size mismatch for fc.weight: copying a param with shape torch.Size([2, 2]) from checkpoint", True),
        ('Missing key(s) in state_dict: "0.weight", "0.bias". ', True),
        ('Unexpected key(s) in state_dict: "weight", "bias". ', True),
        ("loaded state dict has a different number of parameter groups", True),
        ("loaded state dict contains a parameter group that doesn't match the size of optimizer's group", True),
        ("Size mismatch between saved torch.Size([2, 2]) and current: torch.Size([2, 3]) for m.weight", True),
        ("Missing key in checkpoint state_dict: m.0.weight.", True),
        ("Error(s) in loading state_dict for Linear:", False),
        ("Weights only load failed. WeightsUnpickler error: Unsupported operand 60", False),
        ("CUDA error: device-side assert triggered", False),
        ("", False),
    ],
)
def test_a_message_can_say_that_each_attempt_would_fail(message, is_certain):
    assert error_messages.is_certain(message) is is_certain
