# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The documentation of options, from their declarations. Doc fragments and the generators in tools/ use it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from ..module_utils._aws.option import Option


def marked(text: str, prefix: str = "", known: Collection[str] = ()) -> str:
    """Return Ansible's markup with the prefix added to its option names.

    Options that are not in `known` are marked with `ignore:`. If `prefix` is set and `known` is empty, all options count as known.
    """

    def option(match: re.Match[str]) -> str:
        name, value = match.groups()
        is_known = name in known or (prefix and not known)
        return f"O({'' if is_known else 'ignore:'}{prefix}{name}{value})"

    return re.sub(r"\bO\((\w+)([^)]*)\)", option, text)


def documented(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in spec.items() if key != "no_log"}


def documentation(option: Option, *, prefix: str = "", known: Collection[str] = (), nested: str = "suboptions") -> dict[str, Any]:
    """Return an option in the format of a module's documentation. `prefix` and `nested` adapt the format to a role's argument specs."""
    paragraphs = [*option.description, *filter(None, [option.update.sentences])]
    result = {"description": [marked(text, prefix, known) for text in paragraphs], **documented(option.spec)}
    if option.suboptions:
        result[nested] = {
            each.name: {"description": [marked(each.description, prefix, known)], **documented(each.spec)} for each in option.suboptions
        }
    return result
