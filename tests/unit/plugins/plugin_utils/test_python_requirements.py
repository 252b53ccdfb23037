"""Tests that check how the controller reads requirements files."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.python_requirements import parse_requirements, read_requirements


def parse(text, installer="pip", **variables):
    return parse_requirements(text, installer, variables)


@pytest.mark.parametrize("line", ["-r base.txt", "--constraint=pins.txt", "-cpins.txt", "--requirement base.txt"])
def test_requirements_that_need_other_files_are_refused(tmp_path, line):
    (tmp_path / "requirements.txt").write_text(f"torch==2.7\n{line}\n")
    with pytest.raises(AnsibleActionFail, match=f"'requirements.txt': line 2, '{line}', refers to another file"):
        read_requirements("requirements.txt", ["/nowhere", str(tmp_path)])


@pytest.mark.parametrize(
    "line",
    [
        "-e .",
        "-e ./src[dev]",
        "--editable=file:///home/me/src",
        "./wheels/a.whl",
        ".",
        ".[dev]",
        "..",
        "wheels/mine-1.0-py3-none-any.whl",
        "mine-1.0-py3-none-any.whl",
        "mine-1.0.tar.gz[dev]",
        "/home/me/x.whl",
        "~/x.whl",
        r"C:\wheels\x.whl",
        "file:x.whl",
        "file:///home/me/x.whl",
        "git+file:///home/me/x",
        "mine @ ./x",
        "exceptiongroup @ file:///croot/exceptiongroup_1706031385326/work",
        "packaging @ file:///home/conda/feedstock_root/build_artifacts/packaging_1/work ; python_version > '3'",
        "--find-links wheels",
        "-f ./wheels",
    ],
)
def test_local_paths_are_refused_with_what_to_do(line):
    with pytest.raises(ValueError, match=r"^line 2, .*refers to a local path.*pip list --format=freeze.*python_environment_find_links"):
        parse(f"numpy==1.26.4\n{line}\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("_libgcc_mutex=0.1=main", "is in the format of conda"),
        ("requests=2.31.0=pypi_0", "is in the format of conda"),
        ("numpy =1.26.4", "is in the format of conda"),
        ("cudatoolkit=11.8", "is in the format of conda"),
        ("python==3.10", "is the interpreter and not a package. Set python_environment_python"),
        ("Python >=3.9", "is the interpreter and not a package"),
        ("numpy==1.26.4 pandas==2.2.2", "is not a requirement: "),
        ("numpy == ", "is not a requirement: "),
        ("--unknown x", "is not an option of a requirements file: unrecognized arguments: --unknown x."),
        ("--index-url", "is not an option of a requirements file: "),
        ("--extra-index-url https://me:a/b@example.com/", "has a URL with text in place of a port number. In a password, write / as %2F"),
    ],
)
def test_what_hosts_could_not_install_is_refused(line, message):
    with pytest.raises(ValueError, match=re.escape(message)) as refused:
        parse(f"{line}\n")
    assert str(refused.value).startswith("line 1")
    assert "a/b" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('lock-version = "1.0"\n\n[[packages]]\nname = "attrs"\n', "the file is in TOML, such as pyproject.toml, pylock.toml or uv.lock"),
        ('[project]\nname = "bert"\ndependencies = ["torch"]\n', "the file is in TOML"),
        ('[tool.poetry."a b"] # dependencies\ntorch = "2"\n', "the file is in TOML"),
        ("name: bert\ndependencies:\n  - pip:\n    - torch==2.7\n", "the file describes an environment of conda"),
        ("# platform: linux-64\n@EXPLICIT\nhttps://conda.example/noarch/a-1-0.conda\n", "the file describes an environment"),
    ],
)
def test_a_file_in_another_format_is_refused_as_a_whole(text, message):
    with pytest.raises(ValueError, match=re.escape(message)) as refused:
        parse(text)
    assert "line 1" not in str(refused.value)


def test_all_wrong_lines_are_named_at_once():
    lines = "".join(f"package{number}=1.0={number}\n" for number in range(7))
    with pytest.raises(ValueError, match=r"^line 2, 'package0") as refused:
        parse("# platform: linux-64\n" + lines)
    assert len(str(refused.value).splitlines()) == 6
    assert str(refused.value).endswith("\n2 more lines are wrong.")


ACCEPTED = """\
--index-url https://example.com/simple
--extra-index-url=https://example.org/simple
--no-index
-f /efs/wheels
-f https://example.com/wheels
--only-binary :all:
--pre
torch==2.7 ; python_version > '3'
own @ https://example.com/own.whl
own[dev]@https://example.com/own.whl#sha256=0123
p @ git+https://github.com/o/p.git@0123abc#subdirectory=python
git+ssh://git@github.com/o/q@v1
https://example.com/r-1.0.tar.gz
numpy==1.26.4 --hash=sha256:0123 --hash=sha256:4567
xgboost>=2,<3 --config-settings=a=b
"""


def test_all_other_forms_stay_as_they_are():
    assert parse(ACCEPTED) == (ACCEPTED, {})


def test_editable_projects_are_installed_from_their_repositories():
    assert parse("-e git+https://github.com/o/p.git@0123abc#egg=p\n").contents == "p @ git+https://github.com/o/p.git@0123abc\n"
    assert parse("-e git+https://h/p#egg=p[x]&subdirectory=d\n").contents == "p[x] @ git+https://h/p#subdirectory=d\n"
    assert parse("--editable=git+https://h/p#subdirectory=d&egg=p\n").contents == "p @ git+https://h/p#subdirectory=d\n"
    assert parse("-e git+ssh://git@h/p@v1\n").contents == "git+ssh://git@h/p@v1\n"


CONTINUED = [
    ("# ours\n\n  torch==2.7  # pinned\n", ["torch==2.7"]),
    ("numpy==1.26.4 \\\n\npandas==2.2.2\n", ["numpy==1.26.4", "pandas==2.2.2"]),
    ("numpy==1.26.4 \\\n    # via torch\npandas==2.2.2\n", ["numpy==1.26.4", "pandas==2.2.2"]),
    ("numpy==1.26.4 \\\n --hash=sha256:01 \\\n --hash=sha256:23\n# via x\n", ["numpy==1.26.4 --hash=sha256:01 --hash=sha256:23"]),
    ("num\\\npy\n", ["numpy"]),
    ("# comment \\\nnumpy\n", ["numpy"]),
    ("numpy\r\nscipy\r\n", ["numpy", "scipy"]),
    ("a @ https://h/a.whl#sha256=01\n", ["a @ https://h/a.whl#sha256=01"]),
    ("numpy \\", ["numpy"]),
]
# Prints the requirements that pip's own reader finds in a file.
PIP = """
import sys
from pip._internal.network.session import PipSession
from pip._internal.req.req_file import parse_requirements
for each in parse_requirements(sys.argv[1], PipSession()):
    print(each.requirement.strip())
"""


@pytest.mark.parametrize(("text", "lines"), CONTINUED)
def test_lines_are_continued(text, lines):
    assert [re.sub(r"\s+", " ", line) for line in parse(text).contents.splitlines()] == lines


def test_pip_continues_lines_in_the_same_way(tmp_path):
    (tmp_path / "requirements.txt").write_bytes("".join(text for text, _lines in CONTINUED).encode())
    found = subprocess.run([sys.executable, "-c", PIP, str(tmp_path / "requirements.txt")], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == [line.partition(" --")[0] for _text, lines in CONTINUED for line in lines]


def test_the_encoding_is_that_of_the_file(tmp_path):
    for content in ("numpy\n".encode("utf-16"), b"\xef\xbb\xbfnumpy\r\n", b"# -*- coding: latin-1 -*-\n# caf\xe9\nnumpy\n"):
        (tmp_path / "requirements.txt").write_bytes(content)
        assert read_requirements("requirements.txt", [str(tmp_path)]).contents == "numpy\n"
    (tmp_path / "requirements.txt").write_bytes(b"\xef\xbb\xbf-r other.txt\n")
    with pytest.raises(AnsibleActionFail, match=r"line 1, '-r other\.txt', refers to another file"):
        read_requirements("requirements.txt", [str(tmp_path)])
    (tmp_path / "requirements.txt").write_bytes(b"# caf\xe9\nnumpy\n")
    with pytest.raises(AnsibleActionFail, match=r"^requirements: 'requirements.txt': line 1 is not utf-8 text\. Save the file as UTF-8\.$"):
        read_requirements("requirements.txt", [str(tmp_path)])


@pytest.mark.parametrize(
    ("line", "shown", "values"),
    [
        ("--extra-index-url https://aws:s3cr3t@h/simple/", "--extra-index-url https://${DEEPLEARNING_URL_1}@h/simple/", ["aws:s3cr3t"]),
        ("p @ git+https://ghp_s3cr3t@h/o/p.git@v1", "p @ git+https://${DEEPLEARNING_URL_1}@h/o/p.git@v1", ["ghp_s3cr3t"]),
        ("-e git+https://u:s3cr3t@h/p#egg=p", "p @ git+https://${DEEPLEARNING_URL_1}@h/p", ["u:s3cr3t"]),
        ("git+https://${TOKEN}@h/p", "git+https://${DEEPLEARNING_URL_1}@h/p", ["s3cr3t"]),
        ("git+https://u:${TOKEN}@h/p", "git+https://${DEEPLEARNING_URL_1}@h/p", ["u:s3cr3t"]),
        ("-i https://h/${TOKEN}/simple", "-i https://h/${DEEPLEARNING_URL_1}/simple", ["s3cr3t"]),
        (
            "a @ https://h/a.whl?X-Amz-Signature=s3cr3t#sha256=01",
            "a @ https://h/a.whl?${DEEPLEARNING_URL_1}#sha256=01",
            ["X-Amz-Signature=s3cr3t"],
        ),
        ("git+ssh://git@h/p", "git+ssh://git@h/p", []),
        ("git+https://${UNKNOWN}@h/p", "git+https://${UNKNOWN}@h/p", []),
        ("torch==${VERSION}", "torch==2.7", []),
    ],
)
def test_secrets_in_urls_become_variables_of_the_installer(line, shown, values):
    found = parse(f"{line}\n", TOKEN="s3cr3t", VERSION="2.7")
    assert found.contents == f"{shown}\n"
    assert found.credentials == {f"DEEPLEARNING_URL_{number}": value for number, value in enumerate(values, 1)}


def test_messages_contain_no_secrets_and_one_secret_has_one_variable():
    with pytest.raises(ValueError, match="line 1, ") as refused:
        parse("-e file://me:s3cr3t@h/x\n--unknown https://u:s3cr3t@h/\n=https://s3cr3t@h\n")
    assert "s3cr3t" not in str(refused.value)
    assert list(parse("-i https://a:b@h/\np @ https://a:b@h/p.whl\n").credentials.values()) == ["a:b"]


@pytest.mark.parametrize(
    "line", ["--trusted-host pypi.example.com", "--pre", "numpy --only-binary=:all:", "--pypi-url=https://example.com/"]
)
def test_options_that_uv_does_not_read_are_refused_for_uv(line):
    assert parse(f"{line}\n").contents == f"{line}\n"
    with pytest.raises(ValueError, match=r"line 1, .* that uv .*\. Remove it, or set python_environment_installer: pip\."):
        parse(f"{line}\n", "uv")


def test_a_missing_file_is_refused():
    with pytest.raises(AnsibleActionFail, match=r"'other.txt' is not a file on the controller \(searched in /nowhere\)"):
        read_requirements("other.txt", ["/nowhere"])


@pytest.mark.parametrize("line", ["--no-binary numpy,scipy", "--only-binary=numpy,scipy"])
def test_lists_of_packages_are_refused_for_uv(line):
    assert parse(f"{line}\n").contents == f"{line}\n"
    with pytest.raises(ValueError, match=r"line 1, .* names several packages, which uv does not accept\. Write a line for each"):
        parse(f"{line}\n", "uv")
    each = line.partition(",")[0] + "\n"
    assert parse(each, "uv").contents == each
