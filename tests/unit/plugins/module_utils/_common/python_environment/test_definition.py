"""Tests of the directory in which an environment is built, and of the commands that build it."""

from __future__ import annotations

import re

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.python_environment import definition as environments
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.python_requirements import parse_requirements

PYTHON = environments.Interpreter("/usr/bin/python3", "x86_64", "3.10")


def place(requirements="torch==2.7\n", installer="pip", interpreter=PYTHON, variables=None, last=(), hidden=""):
    sources = environments.read_sources(variables or {}, last, requirements)
    specification = environments.specify(requirements, installer, interpreter, sources)
    return environments.place_of("/efs/environments", "bert", specification, interpreter, hidden)


def of_urls(line="torch", index_url=None, find_links=(), **values):
    """Return the digest of a build for a line, as the controller sends it."""
    found = parse_requirements(f"{line}\n", "pip", values)
    hidden = environments.hidden_identity(found.contents, found.credentials, index_url, find_links)
    return place(found.contents, hidden=hidden).digest


def test_another_build_for_what_makes_a_difference_only():
    others = [place("torch==2.8\n"), place(installer="uv"), place(interpreter=PYTHON._replace(path="/opt/pytorch/bin/python"))]
    assert {other.folder for other in others} == {"/efs/environments/bert/x86_64-python3.10"}
    others += [place(variables={"WITH_MPI": 1}), place(variables={"WITH_MPI": 2}), place(last=["torch"])]
    assert len({place().digest, *(other.digest for other in others)}) == 7
    assert place(variables={"A": 1, "B": "1"}) == place(variables={"B": 1, "A": "1"})
    assert place(interpreter=PYTHON._replace(machine="aarch64")).folder == "/efs/environments/bert/aarch64-python3.10"


@pytest.mark.parametrize(
    "line",
    [
        "p @ git+https://github.com/o/p.git@${VALUE}",
        "p @ git+https://${TOKEN}@github.com/o/p.git@${VALUE}#subdirectory=d",
        "p @ https://h/archive.zip?sha=${VALUE}&token=${TOKEN}",
        "p @ https://h/${VALUE}/p-py3-none-any.whl",
        "https://h/p.whl?sp=${VALUE}",
        "--extra-index-url https://u:${TOKEN}@h/whl/${VALUE}",
        "--index-url=https://h/whl/${VALUE}?token=${TOKEN}",
        "--find-links https://h/${VALUE}.html",
    ],
)
def test_a_version_in_a_url_makes_another_build_and_a_token_does_not(line):
    digest = of_urls(line, VALUE="cu126", TOKEN="t0k3n")
    assert of_urls(line, VALUE="cu126", TOKEN="n3w") == digest
    assert of_urls(line, VALUE="cu128", TOKEN="t0k3n") != digest


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("p @ https://h/p.whl?X-Amz-Date=1&X-Amz-Signature=a", "p @ https://h/p.whl?X-Amz-Date=2&X-Amz-Signature=b"),
        ("p @ https://h/p.whl?v=1&se=1&sp=r&sig=a", "p @ https://h/p.whl?v=1&se=2&sp=r&sig=b"),
        ("--extra-index-url https://h/simple?auth=a", "--extra-index-url https://h/simple?auth=b"),
        ("-i https://a:b@h/simple", "-i https://c@h/simple"),
    ],
)
def test_credentials_make_no_other_build(line, other):
    assert of_urls(line) == of_urls(other)


def test_the_package_index_makes_another_build_and_its_credentials_do_not():
    digest = of_urls(index_url="https://aws:t0k3n@h/whl/cu126?auth=1")
    assert of_urls(index_url="https://aws:n3w@h/whl/cu126?auth=2") == digest
    others = [of_urls(index_url="https://aws:t0k3n@h/whl/cu128"), of_urls(), of_urls(find_links=["https://h/whl/cu126"])]
    assert len({digest, *others, of_urls("--index-url https://h/whl/cu126")}) == 5
    assert of_urls() == place("torch\n").digest


@pytest.mark.parametrize("name", ["", "..", "a/b", "-x", "bert large"])
def test_names_that_would_lead_elsewhere_are_refused(name):
    with pytest.raises(ValueError, match="letters, digits"):
        environments.check_name(name)


@pytest.mark.parametrize(
    ("installer", "uv", "programs"),
    [
        ("pip", "/usr/bin/uv", ["/usr/bin/python3", "/e/bin/python"]),
        ("uv", "/usr/bin/uv", ["/usr/bin/uv", "/usr/bin/uv"]),
        ("uv", None, ["/usr/bin/python3", "/tmp/s/uv/bin/python", "/tmp/s/uv/bin/uv", "/tmp/s/uv/bin/uv"]),
    ],
    ids=["pip", "uv", "uv-missing"],
)
def test_uv_is_installed_for_the_build_where_it_is_missing(installer, uv, programs):
    calls = environments.install_arguments("/tmp/s/requirements.txt", "/tmp/s/first.txt", environments.Sources())
    steps = environments.build_steps(installer, PYTHON.path, "/e", calls, uv, "/tmp/s")
    assert [step.argv[0] for step in steps] == programs
    assert steps[-1].argv[-1] == "/tmp/s/requirements.txt"


def test_addresses_with_tokens_are_on_no_command_line():
    variables = environments.installer_variables("https://user:token@example.com/simple", ["/efs/wheels", "https://example.com/wheels"])
    assert variables["PIP_INDEX_URL"] == variables["UV_DEFAULT_INDEX"] == "https://user:token@example.com/simple"
    assert variables["PIP_FIND_LINKS"].split() == variables["UV_FIND_LINKS"].split(",") == ["/efs/wheels", "https://example.com/wheels"]
    assert not {"PIP_INDEX_URL", "PIP_FIND_LINKS"} & environments.installer_variables(None, []).keys(), "the host's configuration applies"


def test_secrets_and_their_passwords_are_masked_in_what_installers_print():
    text = "Cloning https://u:s3%2Fcr3t@h/p, https://****:s3/cr3t@h, https://token@h, sig=q at abc"
    masked = "Cloning https://***@h/p, https://****:***@h, https://***@h, *** at abc"
    assert environments.mask(text, ["u:s3%2Fcr3t", "token", "sig=q", "", "abc"]) == masked


def test_a_failure_ends_with_the_last_lines():
    step = environments.BuildStep("install the requirements", ["pip"])
    text = environments.describe_failure(step, "".join(f"line {number}\n\n" for number in range(40)))
    assert text.splitlines()[0] == "could not install the requirements:"
    assert text.splitlines()[1:] == [*(f"line {number}" for number in range(28, 40)), environments.CORRECTION]
    assert environments.CORRECTION not in environments.describe_failure(
        environments.BuildStep("create a virtual environment", ["python"]), "x"
    )


def test_what_pip_says_of_itself_or_twice_is_left_out():
    reason = "ERROR: Could not find a version that satisfies the requirement nope==1 (from versions: none)"
    repeated = "ERROR: No matching distribution found for nope==1"
    output = "\n".join(
        ["Looking in indexes: https://example.com", "WARNING: Location 'x' is ignored", reason, repeated, "[notice] A new release"]
    )
    step = environments.BuildStep("install the requirements", ["pip"])
    assert environments.describe_failure(step, output).splitlines()[1:-1] == [reason]
    assert environments.describe_failure(step, repeated).splitlines()[1:-1] == [repeated], "it is the only reason"


REQUIREMENTS = """\
--no-index
torch==2.7
Horo_vod==0.28.1 --hash=sha256:0123 --hash=sha256:4567
horovod-tools
"""


def test_packages_without_isolation_are_installed_after_the_others():
    sources = environments.read_sources({}, ["horo.vod"], REQUIREMENTS)
    assert environments.without(REQUIREMENTS, sources.last) == "--no-index\ntorch==2.7\nhorovod-tools\n"
    calls = environments.install_arguments("all.txt", "first.txt", sources)
    assert calls == [
        ["--no-cache-dir", "--requirement", "first.txt"],
        ["--no-cache-dir", "--no-build-isolation", "--requirement", "all.txt"],
    ]
    for installer in ("pip", "uv"):
        steps = environments.build_steps(installer, PYTHON.path, "/e", calls, "/usr/bin/uv", "/tmp/s")
        assert [step.argv[-len(arguments) :] for step, arguments in zip(steps[1:], calls, strict=True)] == calls


def test_a_requirement_that_is_only_a_url_has_no_name():
    url = "git+https://github.com/horovod/horovod#egg=horovod"
    with pytest.raises(ValueError, match=r"If its requirement is a URL, write 'horovod @ URL'\.$"):
        environments.read_sources({}, ["horovod"], f"{url}\n")
    named = f"horovod @ {url}\n"
    assert environments.without(f"torch\n{named}", environments.read_sources({}, ["horovod"], named).last) == "torch\n"


def test_a_cache_of_packages_that_were_built_with_other_variables_is_not_used():
    assert environments.install_arguments("all.txt", "first.txt", environments.Sources()) == [["--requirement", "all.txt"]]
    (call,) = environments.install_arguments("all.txt", "first.txt", environments.Sources({"WITH_MPI": "1"}))
    assert call == ["--no-cache-dir", "--requirement", "all.txt"]


@pytest.mark.parametrize(
    ("variables", "last", "message"),
    [
        ({"WITH-MPI": "1"}, [], "build_variables: 'WITH-MPI' is not a valid variable name. Use letters, digits and '_'."),
        ({"WITH_MPI": True}, [], "build_variables: WITH_MPI: the value True is not a single line of text or a number. Use quotes."),
        ({"FLAGS": "-O2\n-g"}, [], "build_variables: FLAGS: the value '-O2\\n-g' is not a single line"),
        ({"FLAGS": ["-O2"]}, [], "build_variables: FLAGS: the value ['-O2'] is not a single line"),
        (
            {},
            ["torchvision"],
            "no_build_isolation: 'torchvision' is not in the requirements. Add the package to the requirements, or remove it. If its"
            " requirement is a URL, write 'torchvision @ URL'.",
        ),
        ({}, ["index"], "no_build_isolation: 'index' is not in the requirements."),
    ],
)
def test_wrong_options_of_a_build_are_refused(variables, last, message):
    with pytest.raises(ValueError, match=r"^" + re.escape(message)):
        environments.read_sources(variables, last, REQUIREMENTS)
