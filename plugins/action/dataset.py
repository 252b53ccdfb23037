# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the module of the same name, and shows its progress. If the source is on the controller, passes its properties to the module."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils._common.dataset.local_source import upload_facts
from ..module_utils._common.dataset.source import DataError, human
from ..plugin_utils.answers import NodeAction
from ..plugin_utils.background import until_finished
from ..plugin_utils.documented_values import refusal

PLACE = re.compile(r"/[^\x00-\x1f\x7f]{0,4000}")


class ActionModule(NodeAction):
    """Runs the module repeatedly until the data set is complete."""

    def run_module(self, variables: dict[str, Any]) -> dict[str, Any]:
        arguments = {**self._task.args, "attempt": uuid.uuid4().hex}
        if str(arguments.get("source", "")).startswith("/"):
            try:
                arguments["upload"] = upload_facts(arguments["source"])
            except DataError as error:
                raise AnsibleActionFail(str(error)) from error
        answer = until_finished(self, arguments, variables, text)
        return checked_place(answer, variables.get("inventory_hostname", ""))


def checked_place(answer: dict[str, Any], host: str) -> dict[str, Any]:
    """Return the module result, or a failed result if the `download` value is not a path.

    rsync copies the controller's files to the directory that `download` names.
    """
    download = answer.get("download")
    if download is None or PLACE.fullmatch(download):
        return answer
    return refusal(host, "dataset", f"download is {download[:100]!r}, which is not a path")


def text(progress: Mapping[str, Any]) -> str:
    """Return the progress as readable text, or an empty string while the progress is unknown."""
    number, count = progress.get("source", 0), progress.get("sources", 0)
    return _stage(progress) + (f" (source {number} of {count})" if count else "")


def _stage(progress: Mapping[str, Any]) -> str:
    stage, done, total = progress.get("stage", ""), progress.get("done", 0), progress.get("total", 0)
    if not total:
        return f"{stage} {human(done)}" if done else stage
    if stage == "unpacking":
        return f"{stage} archive {done + 1} of {total}"
    return f"{stage} {human(done)} of {human(total)}"
