# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Finds out what the message of an exception says about the cause of a failure. This code runs on hosts."""

from __future__ import annotations

from . import failure_causes

# Parts of the messages that the operating system, Gloo, NCCL (ncclRemoteError, and socket.cc), torch's TCPStore, gRPC (TensorFlow and JAX)
# and JAX's coordination service produce if the other end of a connection has ended.
CONNECTION_CLOSED = (
    "Connection reset by peer",
    "Broken pipe",
    "Connection closed by peer",
    "remote process exited",
    "Connection closed by remote peer",
    "socketStartConnect",
    "socketPollConnect",
    "Connection was likely closed",
    "failed to recv, got 0 bytes",
    "Socket closed",
    "failed to connect to all addresses",
    "different incarnation",
    "another task died",
)

# The exceptions that end an agent of torchrun if another agent has ended.
AGENT_ENDED = ("RendezvousClosedError", "RendezvousConnectionError")

# torch's exception for the errors of NCCL.
NCCL_ERROR = "DistBackendError"

# Parts of the messages of torch's NCCL watchdog, of Gloo, of monitored_barrier() and of JAX's coordination service after a rank has waited
# for others too long, in lower case. Sources: ProcessGroupNCCL.cpp, ProcessGroupGloo.cpp, and unbound_buffer.cc of Gloo.
TIMEOUTS = (
    "collective operation timeout",
    "collective timeout",
    "heartbeat monitor timed out",
    "watchdog got stuck",
    "for recv operation to complete",
    "for send operation to complete",
    "failed to pass monitoredbarrier",
    "barrier timed out",
    "getkeyvalue() timed out",
    "deadline_exceeded: deadline exceeded",
)

# Parts of messages about an error that would end each attempt, whichever checkpoint the script uses. A program was not built for the host's
# GPUs or their driver, ranks use the same GPU, or the script does not fit its checkpoints: it refuses a type (torch.load() with
# weights_only), or has another model or optimizer (Module.load_state_dict(), Optimizer.load_state_dict(), torch.distributed.checkpoint) or
# number of processes (DeepSpeed).
CERTAIN = (
    "was not an allowed global by default",
    "with a new world size is not currently supported",
    "no kernel image is available for execution on the device",
    "driver on your system is too old",
    "driver version is insufficient for CUDA runtime version",
    "PTX was compiled with an unsupported toolchain",
    "Torch not compiled with CUDA enabled",
    "Duplicate GPU detected",
    "size mismatch for ",
    "key(s) in state_dict: ",
    "loaded state dict has a different number of parameter groups",
    "loaded state dict contains a parameter group that doesn't match",
    "Size mismatch between saved ",
    "Missing key in checkpoint state_dict: ",
)

# Parts of messages, in lower case, and the kind of the cause that they name. The first that applies counts.
MESSAGES = (
    # The messages of the system about a full disk, a disk quota and a read-only disk, that of torch's data loader about /dev/shm, and those
    # of torch.save(), which do not contain the system's message (caffe2/serialize/inline_container.cc).
    (
        failure_causes.DISK_FULL,
        (
            "no space left on device",
            "disk quota exceeded",
            "read-only file system",
            "out of shared memory",
            "basic_ios::clear: iostream error",
            ". unexpected pos ",
        ),
    ),
    # CUDA, torch, NCCL and XLA; TensorFlow. Messages about the memory of the host have other words.
    (failure_causes.GPU_MEMORY, ("out of memory", "oom when allocating tensor")),
    # The texts of CUDA's errors 46, 214, 220, 721, 802, 803 and 999 (cudaGetErrorString), and the words of NVIDIA's driver.
    (
        failure_causes.HARDWARE,
        (
            "device(s) is/are busy or unavailable",
            "uncorrectable ecc error",
            "uncorrectable nvlink error",
            "over nvlink or a hardware error",
            "system not yet initialized",
            "unsupported display driver / cuda driver combination",
            "cuda error: unknown error",
            "fallen off the bus",
            "gpu is lost",
        ),
    ),
)


def kind(message: str) -> str:
    """Return the kind of the cause that the message of an exception names, or an empty string if the message names none."""
    text = message.lower()
    return next((found for found, words in MESSAGES if any(each in text for each in words)), "")


def is_certain(message: str) -> bool:
    """Return whether a message says that the error would end each attempt."""
    return any(words in message for words in CERTAIN)


def names_cause(message: str) -> bool:
    """Return whether a message names the cause of an error in this process."""
    return bool(kind(message)) or is_certain(message)


def is_timeout(message: str) -> bool:
    """Return whether a rank has waited for other ranks longer than its time limit."""
    return any(words in message.lower() for words in TIMEOUTS)


def is_about_another_process(message: str) -> bool:
    """Return whether a message says that another process has ended or has not responded, so that the cause is elsewhere."""
    return is_connection_closed(message) or is_timeout(message)


def is_connection_closed(message: str) -> bool:
    """Return whether an exception says that its connection to another process was closed."""
    return any(words in message for words in CONNECTION_CLOSED)
