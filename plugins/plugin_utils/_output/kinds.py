# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The names of resource kinds in sentences."""

from __future__ import annotations

import re

ACRONYMS = re.compile(r"\b(emr|vpc|nat|ip)\b")


def kind_name(kind: str, count: int = 1) -> str:
    """Return the name of a kind such as `nat_gateway` in a sentence, in the plural for several resources."""
    name = ACRONYMS.sub(lambda match: match.group().upper(), kind.replace("_", " "))
    if count == 1 or name.endswith("s"):
        return name
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"
