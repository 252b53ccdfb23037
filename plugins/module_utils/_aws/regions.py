# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""AWS regions and their partitions, from botocore."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from .message_parts import P

try:
    from botocore.loaders import Loader
except ImportError:
    Loader = None


# The regions that are enabled in all accounts, because AWS opened them before 20 March 2019. Source: "Enable or disable AWS Regions in your
# account" in the AWS Account Management reference.
ALWAYS_ENABLED = (
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-northeast-3",
    "ap-south-1",
    "ap-southeast-1",
    "ap-southeast-2",
    "ca-central-1",
    "eu-central-1",
    "eu-north-1",
    "eu-west-1",
    "eu-west-2",
    "eu-west-3",
    "sa-east-1",
    "us-east-1",
    "us-east-2",
    "us-west-1",
    "us-west-2",
)


UNIVERSAL = "amazonaws.com"


@dataclass(frozen=True)
class Partition:
    """A group of regions with its own ARN prefix and DNS suffix, such as `aws-cn` with `amazonaws.com.cn`."""

    name: str
    dns_suffix: str

    @property
    def currency(self) -> str:
        """Return the currency of the prices of AWS. In China and in the European Sovereign Cloud, it is not the dollar."""
        return {"aws-cn": "CNY", "aws-eusc": "EUR"}.get(self.name, "USD")

    def principals(self, service: str) -> list[str]:
        """Return the names of a service in trust policies. They do not follow the DNS suffix, and IAM rejects unknown names.

        Only China also has names with its own suffix. https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html
        """
        return [f"{service}.{suffix}" for suffix in (UNIVERSAL, *((self.dns_suffix,) if self.name == "aws-cn" else ()))]

    def via(self, service: str, region: str) -> list[str]:
        """Return the possible values of `kms:ViaService` for calls that a service makes. AWS documents only those with `amazonaws.com`."""
        return [f"{service}.{region}.{suffix}" for suffix in dict.fromkeys((UNIVERSAL, self.dns_suffix))]

    def arn(self, service: str, resource: str, region: str = "", account: str = "") -> str:
        return f"arn:{self.name}:{service}:{region}:{account}:{resource}"


def _partitions() -> tuple[dict[str, Any], ...]:
    if Loader is None:
        raise ValueError("The Python that runs Ansible lacks botocore, which contains the list of regions. Install boto3 for this Python.")
    return tuple(Loader().load_data("partitions")["partitions"])


@functools.lru_cache(maxsize=None)
def _regions() -> dict[str, Partition]:
    """Return the partitions, keyed by region. Pseudo-regions such as `aws-global`, which represent global services, are omitted."""
    return {
        region: Partition(partition["id"], partition["outputs"]["dnsSuffix"])
        for partition in _partitions()
        for region in partition["regions"]
        if not region.endswith("-global")
    }


def is_always_enabled(region: str) -> bool:
    """Return whether no account can disable the region. Only the partition `aws` has regions that accounts enable and disable."""
    return region in ALWAYS_ENABLED or partition_of(region).name != "aws"


def partition_of(region: str) -> Partition:
    """Return the partition of a region. Raises ValueError if the region is not valid."""
    return _regions()[valid_region(region)]


def valid_region(region: str | None) -> str:
    """Return the region if it is valid. Otherwise, raise ValueError with a message that suggests similar names."""
    known = _regions()
    if not region:
        raise ValueError("No region is set. Set 'region' or the environment variable AWS_REGION, for example to us-east-1.")
    if region not in known:
        raise ValueError(f"{P}region: '{region}' is not an AWS region. Did you mean one of {', '.join(_similar(region, set(known)))}?")
    return region


def _similar(region: str, known: set[str]) -> list[str]:
    import difflib  # pylint: disable=import-outside-toplevel

    return difflib.get_close_matches(region, sorted(known), n=3, cutoff=0.5) or ["us-east-1", "eu-west-1", "ap-northeast-1"]
