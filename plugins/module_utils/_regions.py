# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""AWS regions, as botocore knows them."""

from __future__ import annotations

try:
    from botocore.loaders import Loader
except ImportError:
    pass  # whoever connects reports it


def valid_region(region: str | None) -> str:
    """Return the region. Raises ValueError, with those that could be meant, when it is not one of AWS's."""
    known = {name for partition in Loader().load_data("partitions")["partitions"] for name in partition["regions"]}
    if not region:
        raise ValueError("No region given. Set 'region', or AWS_REGION in the environment, for example us-east-1.")
    if region not in known:
        raise ValueError(f"region: '{region}' is not an AWS region. Regions that could be meant: {', '.join(_similar(region, known))}.")
    return region


def _similar(region: str, known: set[str]) -> list[str]:
    import difflib  # pylint: disable=import-outside-toplevel

    return difflib.get_close_matches(region, sorted(known), n=3, cutoff=0.5) or ["us-east-1", "eu-west-1", "ap-northeast-1"]
