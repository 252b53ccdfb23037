# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Runs the module of the same name until the upload has ended, and shows the progress and the result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.utils.display import Display

from ..module_utils._common.dataset.source import human
from ..module_utils._words import plural
from ..plugin_utils.answers import NodeAction
from ..plugin_utils.background import until_finished
from ..plugin_utils.output import show

display = Display()


class ActionModule(NodeAction):
    """Runs the module repeatedly until the files are uploaded."""

    def run_module(self, variables: dict[str, Any]) -> dict[str, Any]:
        answer = until_finished(self, dict(self._task.args), variables, text)
        if not answer.get("failed") and "files" in answer:
            line = f"{self._task.args['name']}: {summary(answer, check_mode=self._task.check_mode)}"
            show(line)
            if answer.get("omitted"):
                show(f"{self._task.args['name']}: {omitted(answer)}")
            if answer.get("changing"):
                display.warning(f"{self._task.args['name']}: {changing(answer['changing'])}")
        return answer


def text(progress: Mapping[str, Any]) -> str:
    """Return the progress as a line."""
    size = progress.get("uploaded_size")
    return f"exporting, {human(size)} uploaded" if size else "exporting"


def summary(answer: Mapping[str, Any], *, check_mode: bool) -> str:
    """Return a line that says what was uploaded or, in check mode, what would be uploaded."""
    uploaded, files = f"{answer['uploaded']} ({human(answer['uploaded_size'])})", f"{answer['files']} files ({human(answer['size'])})"
    verb = "would be uploaded" if check_mode else "uploaded"
    return f"{uploaded} of {files} {verb} to {answer['destination']}; the other files are already there"


def omitted(answer: Mapping[str, Any]) -> str:
    """Return a line that names what is not uploaded."""
    more = answer.get("omitted_count", 0) - len(answer["omitted"])
    return f"not uploaded: {', '.join(answer['omitted'])}{f', and {more} more' if more > 0 else ''}"


def changing(count: int) -> str:
    """Return the warning about files that are still being written."""
    return f"{plural(count, 'file', 'files')} changed while being uploaded. Export again after the job has ended."
