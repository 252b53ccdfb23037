# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The location of a cluster's SSH certificate authority in Parameter Store."""

from __future__ import annotations


def parameter_name(cluster: str) -> str:
    return f"/deeplearning/{cluster}/ssh-authority"


def public_parameter_name(cluster: str) -> str:
    return f"{parameter_name(cluster)}-public-key"
