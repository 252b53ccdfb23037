"""Writes `plugins/module_utils/_aws/pricing/instance_prices.py`: the On-Demand prices of instance types that are used if AWS tells none.

`python tools/prices.py FILE` reads the prices from `pkg/providers/pricing/zz_generated.pricing_aws.go` of Karpenter's provider for AWS. Its
maintainers generate this file from the AWS Price List (Apache License 2.0). Only numbers are taken from the file.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "plugins" / "module_utils" / "_aws" / "pricing" / "instance_prices.py"
# The families for training, and the families of masters and EMR clusters.
FAMILIES = re.compile(r"(?:dl|g|gr|inf|p|trn)\d\w*\.|(?:c5|c5n|c6i|c7i|m5|m6i|m7i|r5|r6i|r7i|t3|t3a)\.")
PER_LINE = 6
PRICE = re.compile(r'"([a-z0-9-]+\.[a-z0-9-]+)": ([0-9.]+)')
GENERATED = re.compile(r"generated at (\d{4}-\d{2}-\d{2})T\S+ for (\S+)")
HEADER = '''# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""On-Demand prices of instance types with Linux, in dollars per hour. Written by tools/prices.py from the AWS Price List.

Source: Karpenter's provider for AWS, pkg/providers/pricing/zz_generated.pricing_aws.go, Apache License 2.0. Only the numbers are used.
"""

DATE = "{date}"
REGION = "{region}"
# Each line consists of an instance family, and of sizes with their prices.
TABLE = """\
{table}
"""
'''


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    TARGET.write_text(render(parser.parse_args().file.read_text(encoding="utf-8")), encoding="utf-8")


def render(source: str) -> str:
    """Return the module for a file of Karpenter. Raises ValueError if the file has another form."""
    generated = GENERATED.search(source)
    prices = {name: float(price) for name, price in PRICE.findall(source) if FAMILIES.match(name)}
    if generated is None or not prices:
        raise ValueError("The file has no line 'generated at ... for REGION', or no prices.")
    families: dict[str, list[str]] = {}
    for name, price in sorted(prices.items()):
        family, size = name.split(".")
        families.setdefault(family, []).append(f"{size}={price}")
    lines = [" ".join([family, *sizes[n : n + PER_LINE]]) for family, sizes in families.items() for n in range(0, len(sizes), PER_LINE)]
    table = "\n".join(lines)
    return HEADER.format(date=generated[1], region=generated[2], table=table)


if __name__ == "__main__":
    main()
