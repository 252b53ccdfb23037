# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Builds the programs that run on hosts without Ansible.

A program is a zip file that contains a module of `module_utils` and all modules that it imports. A module that builds a program imports the
program's main module, if only for type checking. Therefore, Ansible copies the main module to hosts, and other programs contain it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import marshal
import os
import pathlib
import re
import sys
import zipfile
from typing import Any, Iterator, cast

from .._common import kept_modules
from .._files import replace_file

# The package of all modules. The names of modules below are relative to it.
PACKAGE = __name__[: -len("._hosts.programs")]

# The header of bytecode that Python does not compare with the source: version, flags, and an unused digest. See PEP 552.
UNCHECKED_BYTECODE = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)

# A relative import, also inside functions and for type checking.
IMPORT = re.compile(r"^ *from (\.+)([\w.]*) import (\([^)]*\)|[^\n#]*)", re.MULTILINE)


def build(main: str) -> bytes:
    """Return a zip file that contains a module and all that it imports. Equal modules make equal files.

    If Python runs the zip file, Python calls the module's function `main`. Raises ImportError.
    """
    contents = {f"{PACKAGE}.{name}".replace(".", "/") + ".py": source for name, source in sources(main).items()}
    for package in sorted({str(parent) for name in contents for parent in pathlib.PurePath(name).parents if parent.name}):
        contents[package + "/__init__.py"] = ""
    contents["__main__.py"] = f"import sys\nfrom {PACKAGE}.{main} import main\nsys.exit(main(sys.argv[1:]))\n"
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in contents.items():
            archive.writestr(zipfile.ZipInfo(name), source, zipfile.ZIP_DEFLATED)  # without the current time
    return content.getvalue()


@functools.lru_cache(maxsize=None)
def compiled(main: str) -> bytes:
    """Return the zip file of build() with the bytecode of its modules, which only this version of Python uses. Raises ImportError.

    Each process of a job has a supervisor, and would compile the modules again. If this host keeps the modules of this task, it also keeps
    the zip file.
    """
    is_kept, kept = os.path.dirname(sys.path[0]) == kept_modules.FOLDER, os.path.join(sys.path[0], main + ".zip")
    if is_kept and os.path.exists(kept):
        return pathlib.Path(kept).read_bytes()
    content = io.BytesIO(build(main))
    with zipfile.ZipFile(content, "a", zipfile.ZIP_DEFLATED) as archive:
        for name in archive.namelist():
            code = compile(archive.read(name), name, "exec", dont_inherit=True)
            archive.writestr(zipfile.ZipInfo(name + "c"), UNCHECKED_BYTECODE + marshal.dumps(code), zipfile.ZIP_DEFLATED)
    if is_kept:
        with contextlib.suppress(OSError):
            replace_file(kept, content.getvalue())
    return content.getvalue()


def sources(main: str) -> dict[str, str]:
    """Return the source code of a module and of all modules that it imports, by the modules' names in order. Raises ImportError."""
    found: dict[str, str] = {}
    waiting = [main]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = _source(name)
            waiting += _imported(name, found[name])
    return dict(sorted(found.items()))


def _imported(importer: str, source: str) -> Iterator[str]:
    for dots, module, imported in IMPORT.findall(source):
        name = ".".join([*importer.split(".")[: -len(dots)], *filter(None, [module])])
        if _find(name).submodule_search_locations is None:
            yield name
        else:
            yield from (f"{name}.{each.split()[0]}" for each in imported.strip("()").split(",") if each.strip())


def _find(name: str) -> Any:
    spec = importlib.util.find_spec(f"{PACKAGE}.{name}" if name else PACKAGE)
    if spec is None:
        raise ImportError(f"the module {PACKAGE}.{name} is missing")
    return spec


def _source(name: str) -> str:
    """Return the source code of a module, which can be in a zip file, without running the module. Raises ImportError."""
    source = cast("str | bytes | None", _find(name).loader.get_source(f"{PACKAGE}.{name}"))
    if source is None:
        raise ImportError(f"the source code of {PACKAGE}.{name} is missing")
    return source.decode("utf-8") if isinstance(source, bytes) else source  # Ansible's loader on the controller returns bytes
