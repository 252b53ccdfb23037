"""Tests that check which variables are reported to have no effect: only variables that are set, and only for known reasons."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.node_variables import UNKNOWN
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.unused_variables import OF_DEFINITION, of_definition, of_job
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.variable_names import COLLECTION, known_variables


def names(messages):
    return [message.partition(":")[0] for message in messages]


@pytest.mark.parametrize(
    ("variables", "unused"),
    [
        ({"script": "train.py", "command": ["nvidia-smi"]}, ["training_job_script"]),
        ({"version": "main"}, ["training_job_version"]),
        ({"version": "main", "repository": "git@example.com:x"}, []),
        ({"version": "main", "repository": UNKNOWN}, []),
        ({"script": "train.py", "command": []}, []),
        ({"script": "train.py", "exclude": ["*.ckpt"]}, ["training_job_exclude"]),
        ({"source": "src", "exclude": ["*.ckpt"]}, []),
        ({"report": "false", "report_directory": "here"}, ["training_job_report_directory"]),
        ({"report": "true", "report_directory": "here"}, []),
        ({"export_interval": 60, "export_include": ["logs"]}, ["training_job_export_interval", "training_job_export_include"]),
        ({"export_interval": 60, "export": "s3://results"}, []),
        ({"scripts_directory": "scripts"}, ["training_job_scripts_directory"]),
        ({"scripts_directory": "scripts", "state": "printed"}, []),
        ({"then_always": True}, ["training_job_then_always"]),
        ({"then_always": True, "then": "destroy"}, []),
    ],
)
def test_variables_of_a_job(variables, unused):
    assert names(of_job({f"training_job_{name}": value for name, value in variables.items()})) == unused


def test_variables_of_an_environment():
    options = {"python_environment_directory": "/data/environments", "python_environment_installer": "uv"}
    assert names(of_job(options)) == list(options)
    assert list(of_job({**options, "python_environment_name": "bert"})) == []
    build = {"python_environment_build_variables": {"A": "1"}, "python_environment_system_packages": ["g++"]}
    assert set(names(of_job(build))) == set(names(of_job({**build, "python_environment_name": "bert"}))) == set(build)
    assert list(of_job({**build, "python_environment_name": "bert", "python_environment_requirements": "requirements.txt"})) == []
    with_python = {"python_environment_name": "bert", "training_job_python": "/opt/pytorch/bin/python"}
    assert names(of_job(with_python)) == ["python_environment_name"]


@pytest.mark.parametrize(
    ("options", "unused"),
    [
        ({"efs": False, "throughput_mode": "elastic", "encrypt_in_transit": True}, ["throughput_mode", "encrypt_in_transit"]),
        ({"efs": "no", "throughput_mode": "elastic"}, ["throughput_mode"]),
        ({"throughput_mode": "elastic"}, []),
        ({"file_system_id": "fs-1", "encrypted": False}, ["encrypted"]),
        ({"file_system_id": "fs-1", "encrypted": True}, []),
        ({"file_system_id": UNKNOWN, "encrypted": False}, []),
        ({"lustre_capacity": 2400, "lustre_mount_point": "/scratch"}, ["lustre_capacity", "lustre_mount_point"]),
        ({"lustre_capacity": 2400, "lustre": True}, []),
        ({"lustre_capacity": 2400, "lustre_file_system_id": "fs-2"}, ["lustre_capacity"]),
        ({"lustre": True, "lustre_deployment": "SCRATCH_2", "lustre_throughput": 500}, ["lustre_throughput"]),
        ({"bucket_mount_point": "/data"}, ["bucket_mount_point"]),
        ({"vpc_id": "vpc-1", "network_cidr": "10.9.0.0/16", "nat": "none"}, ["network_cidr", "nat"]),
        ({"private_subnet_ids": ["subnet-1"]}, ["private_subnet_ids"]),
        ({"image_os": "ubuntu-22.04", "image_id": "ami-1", "image_update": True}, ["image_os", "image_update"]),
        ({"image_os": "ubuntu-22.04", "image_parameter": "/images/x"}, ["image_os"]),
        ({"image_os": "ubuntu-22.04"}, []),
        ({"instance_profile": "ours", "permissions_boundary": "arn"}, ["permissions_boundary"]),
        ({"spot_max_price": "3"}, ["spot_max_price"]),
        ({"master_market": "on-demand"}, ["master_market"]),
        ({"master_market": "on-demand", "market": "spot"}, []),
        ({"master_market": "on-demand", "alternatives": [{"zone": "us-east-1a"}]}, ["master_market"]),
        ({"master_market": "on-demand", "alternatives": [{"market": "spot"}]}, []),
        ({"spot_max_price": "3", "market": "spot"}, []),
        ({"spot_max_price": "3", "alternatives": [{"market": "spot"}]}, []),
    ],
)
def test_options_of_the_definition(options, unused):
    found = names(of_definition({f"deeplearning_{name}": value for name, value in options.items()}))
    assert found == [f"deeplearning_{name}" for name in unused]


def test_the_message_names_the_variable_that_is_missing():
    (found,) = of_definition({"deeplearning_bucket_mount_point": "/data"})
    assert found.startswith("deeplearning_bucket_mount_point: this variable has no effect because deeplearning_bucket_mount is not set.")


def test_an_end_of_idle_emr_clusters_does_not_end_others():
    (found,) = of_definition({"deeplearning_emr_idle_after": "1h"})
    assert found.startswith("deeplearning_emr_idle_after: this variable has no effect because it ends only EMR clusters.")
    assert list(of_definition({"deeplearning_emr_idle_after": "1h", "deeplearning_node_service": "emr"})) == []


def test_all_rules_name_options():
    assert {f"deeplearning_{name}" for rule in OF_DEFINITION for name in rule.names} <= known_variables()


@pytest.mark.parametrize("file", sorted(COLLECTION.glob("examples/definitions/*.yml")), ids=lambda file: file.stem)
def test_no_example_has_a_variable_without_effect(file):
    variables = {**yaml.safe_load(file.read_text()), "deeplearning_node_service": "emr" if file.stem == "emr" else "auto_scaling"}
    assert [*of_job(variables), *of_definition(variables)] == []
