# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reads the requirements file of a Python environment on the controller, in the same way as pip.

https://pip.pypa.io/en/stable/reference/requirements-file-format/ describes the format. The controller reads the file because the hosts
have only the standard library.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from ansible.errors import AnsibleActionFail

from .git_repositories import ESCAPES
from .source_paths import find, link_problem, searched_places
from .text_files import decode

# The options of a whole file, and those of one requirement. uv ignores some options with a warning, and does not know others.
FLAGS = ("--no-index", "--require-hashes", "--pre", "--prefer-binary")
VALUES = (
    ("-i", "--index-url", "--pypi-url"),
    ("--extra-index-url",),
    ("-f", "--find-links"),
    ("--no-binary",),
    ("--only-binary",),
    ("--trusted-host",),
    ("--use-feature",),
    ("-r", "--requirement"),
    ("-c", "--constraint"),
    ("-e", "--editable"),
)
NOT_IN_UV = ("--pre", "--prefer-binary", "--trusted-host", "--use-feature", "--pypi-url")
OF_REQUIREMENT = "--hash"

COMMENT = re.compile(r"(^|\s+)#.*$")
URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#\s'\"]*)(?P<path>[^?#\s'\"]*)(?P<query>\?[^#\s'\"]*)?")
HOST = re.compile(r"(\[.*\]|[^:]*)(:\d*)?")
VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")
EGG = re.compile(r"[#&]egg=([^&\s]+)")
ARCHIVE = re.compile(r"\.(whl|zip|tar(\.\w+)?|tgz|tbz2?|txz)(\[[^]]*\])?$", re.IGNORECASE)
# Lines of `conda list --export` and of an environment specification.
CONDA = re.compile(r"[\w.-]+ ?=[^=].*")
FREEZE = "Use the output of `pip list --format=freeze`."
# Lines that show that a file has another format, and what to do.
FORMATS = (
    (
        re.compile(r"^\[.+\]\s*(#.*)?$", re.MULTILINE),
        "is in TOML, such as pyproject.toml, pylock.toml or uv.lock. Use the output of `uv export --no-emit-project` or of `uv pip compile"
        " pyproject.toml`.",
    ),
    (re.compile(r"^(dependencies:|@EXPLICIT)\s*$", re.MULTILINE), f"describes an environment of conda, which pip cannot read. {FREEZE}"),
)

LOCAL = (
    "refers to a local path, which hosts do not have. Write name==version, as `pip list --format=freeze` prints, and put own wheels in a"
    " folder in python_environment_find_links."
)
# Maximum number of lines to name in a message.
NAMED = 5


class Requirements(NamedTuple):
    """The requirements, one per line without comments, and the values of environment variables in their URLs, which may be secrets."""

    contents: str
    credentials: dict[str, str]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def read_requirements(name: str, bases: Sequence[str], installer: str = "pip") -> Requirements:
    """Return the requirements in a file. Raises AnsibleActionFail if the file is missing, or if hosts could not install its requirements.

    A relative path is searched for in each base directory.
    """
    path = find(name, bases)
    if path is None or not os.path.isfile(path):
        raise AnsibleActionFail(
            f"requirements: {name!r} is not a file on the controller (searched in {searched_places(bases)}). "
            "Specify the path of an existing file."
        )
    problem = link_problem(path, bases)
    if problem:
        raise AnsibleActionFail(f"requirements: {name!r} {problem}")
    try:
        with open(path, "rb") as file:
            return parse_requirements(decode(file.read()), installer, os.environ)
    except ValueError as error:
        raise AnsibleActionFail(f"requirements: {name!r}: {error}") from error


def parse_requirements(text: str, installer: str, variables: Mapping[str, str]) -> Requirements:
    """Return the requirements in the text of a file. Raises ValueError with a message for each wrong line.

    As with pip, `${NAME}` is the value of an environment variable. User names, passwords and queries in URLs, and variables in URLs, become
    variables of the installer: they are in `credentials` only.
    """
    for pattern, problem in FORMATS:
        if pattern.search(text):
            raise ValueError(f"the file {problem}")
    credentials: dict[str, str] = {}
    lines, problems = [], []
    for number, line in _logical_lines(text):
        try:
            shown = ""
            shown = _without_credentials(line, variables, credentials)
            lines.append(_read_line(shown, installer) + "\n")
        except ValueError as error:
            problems.append(f"line {number}{f', {shown!r},' if shown else ''} {error}")
    if problems:
        more = [f"{len(problems) - NAMED} more lines are wrong."] if len(problems) > NAMED else []
        raise ValueError("\n".join([*problems[:NAMED], *more]))
    return Requirements("".join(lines), {name: value for value, name in credentials.items()})


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line with its continuation lines and without comments, and the number of its first line.

    A comment ends a continued line, and so does an empty line.
    """
    first = 0
    parts: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        first = first if parts else number
        is_comment = line.lstrip().startswith("#")
        if line.endswith("\\") and not is_comment:
            parts.append(line[:-1])
            continue
        found = COMMENT.sub("", "".join([*parts, " " * is_comment + line])).strip()
        parts = []
        if found:
            yield first, found


def _without_credentials(line: str, variables: Mapping[str, str], credentials: dict[str, str]) -> str:
    """Return a line with variables of the installer in place of what may be secret in its URLs, and add these variables to `credentials`,
    which contains the name of each value. Raises ValueError if a URL is ambiguous.
    """

    def expand(text: str) -> str:
        return VARIABLE.sub(lambda found: variables.get(found[1], found[0]), text)

    def hide(value: str) -> str:
        if not value or VARIABLE.search(value):  # a variable that only the hosts know
            return value
        return "${" + credentials.setdefault(value, f"DEEPLEARNING_URL_{len(credentials) + 1}") + "}"

    def of_url(found: re.Match[str]) -> str:
        user, at, host = expand(found["authority"]).rpartition("@")
        if not HOST.fullmatch(host):
            raise ValueError(f"has a URL with text in place of a port number. {ESCAPES}")
        is_secret = ":" in user or not found["scheme"].endswith("ssh")
        path = VARIABLE.sub(lambda each: hide(variables[each[1]]) if each[1] in variables else each[0], found["path"])
        mark, query = (found["query"] or "")[:1], expand((found["query"] or "")[1:])
        return "".join((found["scheme"], "://", hide(user) if is_secret else user, at, host, path, mark, hide(query)))

    pieces, end = [], 0
    for found in URL.finditer(line):
        pieces += [expand(line[end : found.start()]), of_url(found)]
        end = found.end()
    return "".join([*pieces, expand(line[end:])])


def _read_line(line: str, installer: str) -> str:
    """Return a line as the hosts get it. Raises ValueError."""
    if line.startswith("-"):
        return _read_option(line, installer)
    requirement, *options = re.split(r"\s+(?=-)", line, maxsplit=1)
    if options and installer == "uv" and not options[0].startswith(OF_REQUIREMENT):
        raise ValueError(f"has an option that uv does not accept after a requirement. Remove it, or {_use_pip()}.")
    return " ".join([_read_requirement(requirement), *options])


def _use_pip() -> str:
    return "set python_environment_installer: pip"


def _read_option(line: str, installer: str) -> str:
    parser = _Parser(add_help=False)
    for flag in FLAGS:
        parser.add_argument(flag, action="store_true")
    for names in VALUES:
        parser.add_argument(*names, dest=names[0])
    words = shlex.split(line)
    try:
        given = vars(parser.parse_args(words))
    except ValueError as error:
        raise ValueError(f"is not an option of a requirements file: {error}. Correct or remove it.") from None
    if given["-r"] or given["-c"]:
        raise ValueError("refers to another file, which is not copied to the hosts. Insert the contents of that file instead.")
    if given["-e"]:
        return _read_editable(given["-e"])
    if given["-f"] and not (given["-f"].startswith("/") or "://" in given["-f"]):
        raise ValueError(LOCAL)
    if installer == "uv":
        _check_for_uv(words[0].partition("=")[0], given)
    return line


def _check_for_uv(option: str, given: dict[str, Any]) -> None:
    if option in NOT_IN_UV:
        raise ValueError(f"has an option that uv ignores in a requirements file. Remove it, or {_use_pip()}.")
    if any("," in (given[name] or "") for name in ("--no-binary", "--only-binary")):
        raise ValueError(f"names several packages, which uv does not accept. Write a line for each of them, or {_use_pip()}.")


def _read_editable(value: str) -> str:
    """Return the requirement for an editable project in a repository. It is not editable, because an environment never changes."""
    if not URL.match(value):
        raise ValueError(LOCAL)
    egg = EGG.search(value)
    url = EGG.sub("", value, count=1) if egg else value
    if egg and "#" not in url:
        url = url.replace("&", "#", 1)
    return _read_requirement(f"{egg[1]} @ {url}" if egg else url)


def _read_requirement(text: str) -> str:
    """Return a requirement. Raises ValueError if the text is none, or if it refers to a path on the controller."""
    if URL.match(text):
        _check_url(text)
        return text
    name = re.split(r"[@;]", text, maxsplit=1)[0].strip()
    if text.startswith((".", "/", "~", "file:")) or re.search(r"[/\\]", name) or ARCHIVE.search(name):
        raise ValueError(LOCAL)
    if CONDA.fullmatch(text):
        raise ValueError(f"is in the format of conda, which pip cannot read. {FREEZE}")
    # ansible-core requires this package, but ansible-test imports plugins without it.
    from packaging.requirements import InvalidRequirement, Requirement  # pylint: disable=import-outside-toplevel

    try:
        found = Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(f"is not a requirement: {str(error).splitlines()[0].rstrip('.')}. Correct the line.") from None
    if found.name.lower() == "python":
        raise ValueError("is the interpreter and not a package. Set python_environment_python, and remove the line.")
    if found.url:
        _check_url(found.url)
    return text


def _check_url(url: str) -> None:
    scheme, colon, _rest = url.partition("://")
    if not colon or scheme.rpartition("+")[2].lower() == "file":
        raise ValueError(LOCAL)
