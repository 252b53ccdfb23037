# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Returns the part of a cloud-config that every node gets: what a former node has left in the image, and automatic upgrades."""

from __future__ import annotations

from typing import Any

from ..._common.gpus import METADATA
from ..._common.shared_storage.mounts import KERNEL_PACKAGES
from ..._common.ssh_trust.files import CLIENT_DROP_IN, DAEMON_DROP_IN, DIRECTORY

# Files of the node from which an image was made. Until the first run of `configure`, the new node would trust the former cluster.
FORMER = (DAEMON_DROP_IN, CLIENT_DROP_IN, DIRECTORY, METADATA)
# Before sshd starts, cloud-init runs this command once for each instance.
FORGET = ["cloud-init-per", "instance", "deeplearning_former_node", "rm", "-rf", *FORMER]

# Regular expressions for the start of a package's name. The modules of EFA, NVIDIA and storage clients belong to one kernel, and NVIDIA's
# libraries to the driver that is loaded. After an automatic upgrade, the next reboot would start a kernel without these modules, and
# programs would fail until that reboot.
PACKAGES = (
    *("linux-image", "linux-headers", "linux-modules", "linux-aws", "linux-generic", "linux-virtual"),
    *("nvidia-", "libnvidia-", "xserver-xorg-video-nvidia", "cuda-drivers", "efa(-|$)", *KERNEL_PACKAGES),
)
UPGRADES = "/etc/apt/apt.conf.d/60deeplearning-upgrades"
UPGRADES_CONTENT = "".join(
    [
        "// Written by deeplearning.cluster. Only automatic upgrades leave out these packages.\n",
        "Unattended-Upgrade::Package-Blacklist {\n",
        *(f'  "{package}";\n' for package in PACKAGES),
        "};\n",
    ]
)


def cloud_config(storage: dict[str, Any]) -> dict[str, Any]:
    """Return the cloud-config of a node. `storage` is the part that mounts the shared storage."""
    upgrades = {"path": UPGRADES, "permissions": "0644", "content": UPGRADES_CONTENT}
    return {
        **storage,
        "bootcmd": [FORGET],
        "ssh_deletekeys": True,
        "write_files": [*storage.get("write_files", ()), upgrades],
    }
