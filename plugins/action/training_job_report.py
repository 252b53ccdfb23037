# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Writes the report on a job from the data that the module of the same name reads on a host."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping
from typing import Any

from ansible.utils.display import Display

from ..plugin_utils._output.prices import of_run
from ..plugin_utils._report import charts, page
from ..plugin_utils._report.cost import cost_of
from ..plugin_utils.answers import NodeAction
from ..plugin_utils.gone_nodes import gone_hosts, with_gone_hosts
from ..plugin_utils.inventory_nodes import node_table
from ..plugin_utils.node_prices import price_of_nodes
from ..plugin_utils.output import show

display = Display()

PAGE = "report.html"


class ActionModule(NodeAction):
    """Runs the module, writes the page on the controller and copies it to the job's directory."""

    def run_module(self, variables: dict[str, Any]) -> dict[str, Any]:
        result = super().run_module(variables)
        if result.get("failed"):
            return result
        directory = os.path.join(self._task.args["directory"], self._task.args["name"])
        if not charts.can_draw():
            display.warning("The report has no curves because matplotlib is not installed on the controller. Run pip install matplotlib.")
        dest = os.path.abspath(os.path.expanduser(self._task.args["dest"]))
        # Strings in JSON can contain lone surrogates, which UTF-8 cannot encode.
        with self.reading(variables):
            report = result.pop("report")
            nodes, former = node_table(variables), self._task.args.get("former_nodes") or ()
            gone = gone_hosts(report["job"], nodes, former)
            report["job"] = with_gone_hosts(report["job"], gone)
            # A run that reads no price knows less than the run that has written the last report
            price = page.known(of_run(variables)) or page.price_in(dest)
            cost = cost_of(report, nodes.values(), former, price_of_nodes(variables, price), time.time())
            content = page.render(report, copy_command(variables, directory), cost, price).encode("utf-8", "replace")
        try:
            changed = write(dest, content, self._task.check_mode)
        except OSError as error:
            # An exception would bypass failed_when.
            return {**result, "failed": True, "msg": f"dest: {dest!r} cannot be written: {error}. Use another path."}
        path = os.path.join(directory, PAGE)
        if changed and self._task.check_mode:
            return {**result, "changed": True, "dest": dest, "path": path}
        copied = self._put(dest, variables)
        if copied.get("failed"):
            return copied
        spent = f", cost: {cost.partition('. ')[0]}" if cost else ""
        show(f"{self._task.args['name']}: the report is at {dest}{spent}")
        return {**result, "changed": changed or copied["changed"], "dest": dest, "path": path}

    def _put(self, source: str, variables: dict[str, Any]) -> dict[str, Any]:
        """Use the module to copy the page to the job's directory. The `copy` action would follow links that a script may have created."""
        if self._connection._shell.tmpdir is None:
            self._make_tmp_path()
        remote = self._connection._shell.join_path(self._connection._shell.tmpdir, PAGE)
        self._transfer_file(source, remote)
        arguments = {**self._task.args, "page": remote}
        put: dict[str, Any] = self._execute_module(self._module, module_args=arguments, task_vars=variables)
        return put


def write(path: str, content: bytes, check_mode: bool) -> bool:
    """Write a file if its content differs, and return whether it differed. Raises OSError."""
    try:
        with open(path, "rb") as file:
            if file.read() == content:
                return False
    except FileNotFoundError:
        pass
    if not check_mode:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
    return True


def copy_command(variables: Mapping[str, Any], directory: str) -> str | None:
    """Return the command that copies a job's directory to the controller, or None if the inventory sets no SSH directory."""
    if "deeplearning_ssh_directory" not in variables:
        return None
    configuration = os.path.join(str(variables["deeplearning_ssh_directory"]), "config")
    return shlex.join(["scp", "-r", "-F", configuration, f"{variables['inventory_hostname']}:{directory}", "."])
