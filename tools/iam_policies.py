"""Writes the IAM policies that operators need, one for each playbook, from the actions that components and modules declare.

`python tools/iam_policies.py --cluster bert --output FOLDER` writes the policies for the cluster `bert`, and `--cluster 'speech-*'` for all
clusters whose names begin with `speech-`. Without options, this program writes the examples in docs/policies, which are for clusters named
`example-*`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ansible_collections.deeplearning.cluster.plugins.plugin_utils.iam_account import EXAMPLE, PARTITIONS, Account
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.iam_policy_files import policies, text

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "policies"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", help="name of the cluster, or a pattern with * (needs --output)")
    parser.add_argument("--partition", default="aws", choices=PARTITIONS)
    parser.add_argument(
        "--permissions-boundary", default="", metavar="ARN", help="policy that all node roles must have as their permissions boundary"
    )
    parser.add_argument(
        "--adopt",
        action="append",
        default=[],
        metavar="ARN",
        help="ARN of a file system, security group, role, bucket or parameter in the definitions",
    )
    parser.add_argument("--region", default="", help="allow only this region")
    parser.add_argument("--output", type=Path, default=FOLDER, help="folder for the files (default: docs/policies)")
    arguments = parser.parse_args()
    if arguments.output == FOLDER and (arguments.cluster or arguments.permissions_boundary or arguments.adopt or arguments.region):
        parser.error("docs/policies contains only the examples, which these options would overwrite. Add --output with another folder.")
    if arguments.output != FOLDER and not arguments.cluster:
        parser.error("--output requires --cluster. Add --cluster NAME.")
    arguments.output.mkdir(parents=True, exist_ok=True)
    account = Account(
        arguments.cluster or EXAMPLE, arguments.partition, arguments.permissions_boundary, tuple(arguments.adopt), arguments.region
    )
    wanted = policies(account)
    for path in FOLDER.glob("*.json") if arguments.output == FOLDER else ():
        path.unlink()
    for name, policy in wanted.items():
        (arguments.output / f"{name}.json").write_text(text(policy))


if __name__ == "__main__":
    main()
