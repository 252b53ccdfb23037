"""Tests of the errors that the controller finds in the variables of a run, and of the checks that the controller leaves to the hosts."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
from ansible_collections.deeplearning.cluster.plugins.plugin_utils import controller_checks
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.controller_checks import (
    errors_of_run,
    health_check_errors,
    key_errors,
    value_findings,
    variable_warnings,
)
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.node_variables import UNKNOWN, NodeVariables


@pytest.fixture
def errors(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    (tmp_path / "requirements.txt").write_text("torch==2.7\n")

    def find(kind="job", *, needs_job=True, **values):
        return list(errors_of_run(kind, values, [str(tmp_path)], needs_job=needs_job))

    return find


def job(**values):
    return {"training_job_script": "train.py", **{f"training_job_{name}": value for name, value in values.items()}}


def built(**values):
    given = {"name": "bert", "requirements": "requirements.txt", **values}
    return {**job(), **{f"python_environment_{name}": value for name, value in given.items()}}


def test_all_findings_come_at_once(errors, tmp_path):
    (tmp_path / "file").touch()
    found = errors(
        **job(script="nope.py", launcher="torch", name="My_Job", resume="Old_Job", time_limit="an hour", max_cost=-5),
        training_job_report_directory="file/reports",
        python_environment_name="bert",
        python_environment_requirements="req.txt",
        ssh_trust_validity_days="soon",
    )
    for message in (
        "training_job_time_limit: 'an hour' has the wrong type. Specify an integer.",
        "ssh_trust_validity_days: 'soon' has the wrong type. Specify an integer.",
        f"python_environment_requirements: 'req.txt' is not a file on the controller (searched in {tmp_path})",
        "training_job_name: 'My_Job' is not a valid job name",
        "training_job_resume: 'Old_Job' is not a valid job name",
        "training_job_launcher: 'torch' is unknown. Use one of command",
        "training_job_max_cost: -5 is not valid. Specify an amount such as 250, or 0 for no limit.",
        f"training_job_script: 'nope.py' is not a file on the controller (searched in {tmp_path})",
        f"training_job_report_directory: '{tmp_path}/file' is not a directory. Choose another directory",
    ):
        assert any(message in finding for finding in found), message
    assert len(found) == 9


@pytest.mark.parametrize(
    "values",
    [
        job(),
        job(script="", command=["nvidia-smi"]),
        job(repository="git@example.com:train.git", script="x.py"),
        job(script=UNKNOWN),
        job(script="nope.py", source=UNKNOWN),
        job(export="s3://results/team", export_interval=60),
        job(export=UNKNOWN, export_interval=UNKNOWN),
        job(launcher=UNKNOWN, launcher_options={"restart": 3}),
        job(report_directory=UNKNOWN),
        job(launcher="mxnet", environment_by_task={"server": {"PS_VERBOSE": 1}}),
        job(launcher=UNKNOWN, environment_by_task={"ps": {"A": 1}}),
        job(report_directory="train.py", report=False),
        job(queue="slurm", host_count="2"),
        job(queue=UNKNOWN, host_count=2),
        job(queue="", host_count=0),
        job(max_cost=0),
        job(max_cost=UNKNOWN),
        {"training_job_command": UNKNOWN},
        {**job(), "python_environment_name": "bert", "python_environment_requirements": "requirements.txt"},
        {**job(), "python_environment_name": UNKNOWN, "python_environment_requirements": UNKNOWN},
        built(no_build_isolation=["torch"], build_variables={"MAX_JOBS": 2}, system_packages=["g++", "libopenmpi-dev"]),
        built(no_build_isolation=UNKNOWN, build_variables=UNKNOWN, system_packages=UNKNOWN),
    ],
)
def test_what_is_good_or_not_known_is_not_refused(errors, values):
    assert errors(**values) == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"no_build_isolation": ["torhc"]}, "no_build_isolation: 'torhc' is not in the requirements. Add"),
        ({"build_variables": {"MAX JOBS": 2}}, "build_variables: 'MAX JOBS' is not a valid variable name. Use"),
        ({"system_packages": ["g++", "vim-"]}, "system_packages: 'vim-' is not a valid package name. Use"),
    ],
)
def test_wrong_options_of_a_build_are_refused(errors, values, message):
    (found,) = errors(**built(**values))
    assert found.startswith("python_environment_" + message)


@pytest.mark.parametrize(("value", "shown"), [("req.txt", "'req.txt'"), (UNKNOWN, "the value")])
def test_requirements_without_the_name_of_an_environment_are_refused(errors, value, shown):
    (found,) = errors(**job(), python_environment_requirements=value)
    assert found.startswith(f"python_environment_requirements: {shown} has no effect, because python_environment_name is empty. Specify")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"queue": "pbs"}, "training_job_queue: 'pbs' is unknown. Use one of sge, slurm, yarn."),
        ({"queue": "slurm", "host_count": -1}, "training_job_host_count: -1 is negative. Use 0 or more."),
        ({"host_count": 2}, "training_job_host_count: 2 has no effect without a queue. Set queue, or remove this option."),
    ],
)
def test_options_of_the_queue(errors, values, message):
    assert message in errors(**job(**values))


def test_a_job_needs_a_script_only_where_one_is_to_run(errors):
    assert errors() == ["training_job_script: no script is set. Specify the path of the training script, or set training_job_command."]
    assert errors(needs_job=False, training_job_launcher="not looked at") == []


@pytest.mark.parametrize("kind", ["job", "export"])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"export": "results"}, "training_job_export: 'results' is not a bucket or prefix. Use letters, digits and ._=+@-, as in"),
        ({"export": "s3://results/*"}, "training_job_export: 's3://results/*' is not a bucket or prefix."),
        ({"export": "s3://results", "export_interval": 5}, "training_job_export_interval: 5 s is not valid. Specify at least 60 s, or 0"),
        ({"export": "s3://results", "export_interval": -60}, "training_job_export_interval: -60 s is not valid."),
        (
            {"export": "s3://results", "export_include": {}},
            "training_job_export_include: {} has the wrong type. Specify a list of",
        ),
    ],
)
def test_the_options_of_an_export(errors, kind, values, message):
    (found,) = errors(kind=kind, **job(**values))
    assert found.startswith(message)


def test_code_has_one_place(errors):
    assert errors(**job(source="src", repository="git@example.com:x")) == [
        "training_job_source: a source cannot be combined with training_job_repository. Remove one of the two."
    ]


def test_set_up_steps_are_checked_even_without_a_job(errors, tmp_path):
    (tmp_path / "setup.sh").write_text("true\n")
    assert errors(needs_job=False, node_setup_steps=[{"script": "setup.sh"}]) == []
    assert errors(needs_job=False, node_setup_steps=UNKNOWN) == []
    found = errors(needs_job=False, node_setup_steps=[{"script": "setup.py"}, {"packages": ["gcc"], "timeout": "soon"}])
    assert found == [
        f"node_setup_steps: step 1: script: 'setup.py' is not a file on the controller (searched in {tmp_path}). Specify the path of an "
        "existing file.",
        "node_setup_steps: step 2: timeout: 'soon' is not a number of seconds. Use a whole number above 0.",
    ]
    (found,) = errors(needs_job=False, node_setup_steps={"secrets": "hunter2"})
    assert found == "node_setup_steps: the value has the wrong type. Specify a list of dictionaries."


def test_variables_of_a_task_type_that_the_launcher_does_not_start(errors):
    assert errors(**job(environment_by_task={"server": {}})) == [
        "training_job_environment_by_task: launcher 'torchrun' has no task types. Use the option environment instead."
    ]
    (found,) = errors(**job(launcher="mxnet", environment_by_task={"sever": {}}))
    assert found.startswith(
        "training_job_environment_by_task: launcher 'mxnet' starts no tasks of type 'sever' with these options. Use sch"
    )


def test_a_secret_of_the_wrong_type_is_not_shown(errors):
    (found,) = errors(**job(secrets="hunter2 is not a dictionary"))
    assert found == "training_job_secrets: the value has the wrong type. Specify a dictionary."


SEVERAL = [{"source": "s3://b/images", "folder": "images/train"}, {"source": "https://e.org/x.tar", "unpack": True}]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"source": "s3:/bucket"}, "dataset_source: 's3:/bucket' is not supported. Use s3://bucket/prefix"),
        ({"source": "/nowhere/at/all"}, "dataset_source: '/nowhere/at/all' does not exist on the controller."),
        ({"source": "s3://b/k", "name": "a b"}, "dataset_name: 'a b' is not a valid name"),
        ({"source": "s3://b/k", "checksum": "md4:1"}, "dataset_checksum: 'md4:1' is not a valid checksum"),
        ({"source": "s3://b/k", "destination": "s3://bucket"}, "dataset_destination: 's3://bucket' has no prefix"),
        ({"source": "https://e.org/x.tar", "destination": "direct"}, "dataset_destination: 'direct' reads the data from S3"),
        ({"source": "s3://b/k", "unpack": "perhaps"}, "dataset_unpack: 'perhaps' has the wrong type. Specify true or false."),
        ({"sources": SEVERAL}, "dataset_name: several sources have no default name. Specify a name."),
        ({"sources": SEVERAL, "name": "a b"}, "dataset_name: 'a b' is not a valid name"),
        ({"sources": SEVERAL, "name": "a", "source": "s3://b/k"}, "dataset_source: cannot be combined with dataset_sources. Set source in"),
        ({"sources": SEVERAL, "name": "a", "unpack": True}, "dataset_unpack: cannot be combined with dataset_sources. Set unpack in"),
        ({"sources": SEVERAL, "name": "a", "checksum": "md5:1"}, "dataset_checksum: cannot be combined with dataset_sources."),
        ({"sources": SEVERAL, "name": "a", "destination": "direct"}, "dataset_destination: 'direct' supports only one source."),
        ({"sources": SEVERAL, "name": "a", "destination": "s3://bucket"}, "dataset_destination: 's3://bucket' has no prefix"),
        ({"sources": [{"source": "ftp://e.org/x"}], "name": "a"}, "dataset_source: 'ftp://e.org/x' is not supported."),
        (
            {"sources": [{"folder": "x"}], "name": "a"},
            "dataset_sources: [{'folder': 'x'}] has the wrong type. Specify a list",
        ),
        ({"sources": [{"source": "/data"}], "name": "a"}, "dataset_sources: '/data' is a path on the controller."),
        ({"sources": [{"source": "s3://b/k", "folder": "../x"}], "name": "a"}, "dataset_sources: the folder '../x' is not valid."),
        ({"sources": [{"source": "s3://b/k", "folder": "/x"}], "name": "a"}, "dataset_sources: the folder '/x' is not valid."),
        ({"sources": [{"source": "s3://b/k", "folder": "x/"}], "name": "a"}, "dataset_sources: the folder 'x/' is not valid."),
        ({"sources": [*SEVERAL, {"source": "s3://b/k", "checksum": "md4:1"}], "name": "a"}, "dataset_checksum: 'md4:1' is not a valid"),
        ({"sources": ["s3://b/k"], "name": "a"}, "dataset_sources"),
    ],
)
def test_the_options_of_a_data_set(errors, values, message):
    (found,) = errors("dataset", **{f"dataset_{name}": value for name, value in values.items()})
    assert found.startswith(message)


def test_a_data_set_with_several_faults_has_several_findings(errors):
    assert len(errors("dataset", dataset_source="/nowhere", dataset_name="a b", dataset_destination="direct")) == 3


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"dataset_source": "/"},
        {"dataset_source": UNKNOWN},
        {"dataset_source": "s3://b/k", "dataset_destination": UNKNOWN},
        {"dataset_sources": SEVERAL},
        {"dataset_sources": UNKNOWN},
        {"dataset_sources": SEVERAL, "dataset_name": UNKNOWN},
    ],
)
def test_a_data_set_that_is_good_or_not_known(errors, values):
    assert errors("dataset", **{"dataset_name": "x", **values}) == []


def test_the_private_key_file(tmp_path):
    assert list(key_errors({})) == []
    assert list(key_errors({"deeplearning_private_key_file": UNKNOWN})) == []
    (found,) = key_errors({"deeplearning_private_key_file": str(tmp_path / "key.pem")})
    assert (
        found == f"private_key_file: '{tmp_path}/key.pem' is not a file on the controller. Specify the path of the key pair's private key."
        " If an SSH agent has the key, remove this option from the inventory file."
    )


def test_lists_that_are_given_as_one_string(errors):
    assert errors(**job(arguments="--epochs 3", command="nvidia-smi", exclude="data raw,*.ckpt")) == [
        "training_job_command: 'nvidia-smi' is a string. Use a list: [\"nvidia-smi\"]. On the command line, use -e "
        """'{"training_job_command": ["nvidia-smi"]}'.""",
        'training_job_exclude: \'data raw,*.ckpt\' is a string. Use a list: ["data", "raw,*.ckpt"]. On the command line, use -e '
        """'{"training_job_exclude": ["data", "raw,*.ckpt"]}'.""",
        'training_job_arguments: \'--epochs 3\' is a string. Use a list: ["--epochs", "3"]. On the command line, use -e '
        """'{"training_job_arguments": ["--epochs", "3"]}'.""",
    ]
    assert errors(**job(arguments="", command="  ", exclude="*.ckpt,data", gpus="0,1")) == []


@pytest.mark.parametrize(
    ("variables", "messages"),
    [
        ({"LD_LIBRARY_PATH": "/opt/lib:$LD_LIBRARY_PATH"}, ["LD_LIBRARY_PATH: '$LD_LIBRARY_PATH' is passed to the job unchanged"]),
        ({"A": "x${HOME}/y", "HF_HOME": "~/hf"}, ["A: '${HOME}' is passed to the job unchanged", "HF_HOME: '~' is passed"]),
        ({"PRICE": "5$", "A": "$1", "B": "a~/b", "C": "~user", "N": 3, "CUDA_VISIBLE_DEVICES": ""}, []),
        ({"CUDA_VISIBLE_DEVICES": "MIG-1111"}, ["CUDA_VISIBLE_DEVICES replaces the GPUs that the launcher assigns"]),
        (UNKNOWN, []),
    ],
)
def test_variables_that_may_not_have_the_expected_effect(variables, messages):
    found = list(variable_warnings({"training_job_environment": variables}))
    assert len(found) == len(messages)
    for warning, message in zip(found, messages, strict=True):
        assert warning.startswith("training_job_environment: " + message)


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"training_job_arguments": ["--epochs", "3", "\u2013lr"]}, "training_job_arguments: element 3: character 1 is U+2013 (EN DASH)"),
        ({"training_job_command": ["bash\u200b", "run.sh"]}, "training_job_command: element 1: character 5 is U+200B (ZERO WIDTH SPACE)"),
        ({"training_job_environment": {"A": "b\u00a0"}}, "training_job_environment: A: character 2 is U+00A0 (NO-BREAK SPACE)"),
        ({"training_job_environment": {"A\u00a0": "b"}}, "training_job_environment: the name 'A\\xa0': character 2 is U+00A0"),
        (
            {"training_job_launcher_options": {"arguments": ["\u2013x"]}},
            "training_job_launcher_options: arguments: element 1: character 1 is U+2013",
        ),
        ({"node_setup_steps": [{"command": "a\u00a0b"}]}, "node_setup_steps: element 1: command: character 2 is U+00A0"),
    ],
)
def test_characters_of_web_pages_in_words_of_a_command_are_a_warning(variables, place):
    (found,) = variable_warnings(variables)
    assert found.startswith(place)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (job(environment={"A": True}), "training_job_environment: A: YAML reads the value as true"),
        (
            job(launcher="mpi", launcher_options={"arguments": ["-x", None]}),
            "training_job_launcher_options: arguments: element 2: YAML reads",
        ),
        (job(version=False, repository="https://x/y"), "training_job_version: YAML reads the value as false"),
        (built(build_variables={"A": None}), "python_environment_build_variables: A: YAML reads the value as null"),
    ],
)
def test_text_that_yaml_reads_as_something_else_is_refused(errors, values, message):
    assert any(error.startswith(message) for error in errors(**values))


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("", []),
        (UNKNOWN, []),
        ("checks", ["node_health_checks: 'clock' is the name of one of the collection's checks. Rename the file."]),
        ("nowhere", ["node_health_checks: 'nowhere' is not a directory on the controller. Specify a folder with executable files."]),
    ],
)
def test_the_controller_refuses_files_that_cannot_be_health_checks(tmp_path, folder, expected):
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "clock").touch(mode=0o755)
    assert health_check_errors({"node_health_checks": folder}, [str(tmp_path)]) == expected


def test_values_of_the_roles_of_a_playbook_are_checked_once(monkeypatch):
    raw = {"node_health_checks": "nowhere", "node_health_dcgm_level": 9, "slurm_timeout": "long"}
    nodes = NodeVariables(raw, lambda value: value)
    monkeypatch.setattr(controller_checks, "node_variables", lambda *_: nodes)
    found = value_findings(MagicMock(), raw, ["node_health"])
    assert [finding.message.partition(":")[0] for finding in found] == ["node_health_dcgm_level", "node_health_checks"]
    assert value_findings(MagicMock(), raw, []) == []
