"""Tests of the commands that query and change qmaster's configuration."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.sge import configuration
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.sge.configuration import SgeObject
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.services import ServiceError
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.sge import commands

from unit.modules import Module

# The status and the message of qconf for an object that does not exist.
MISSING = (1, "no such object")

QUEUE = SgeObject("q", "trainers", {"qname": "trainers", "slots": "8"}, {"priority": "0"})
GLOBAL = SgeObject("conf", "global", {"min_uid": "0"}, None)
CURRENT = "qname    trainers\nslots    4\npriority 5\n"


def settings(text):
    return configuration.parse(text)


def test_a_command_that_fails_is_named_without_its_arguments():
    module = Module({"qconf -Mq trainers": (1, "denied: host \n is unknown.\n")})
    with pytest.raises(ServiceError, match=r"^qconf -Mq failed: denied: host is unknown\. Check sge_qmaster\.service on the master\.$"):
        commands.ask(module, "qconf", "-Mq", "trainers")


def test_a_command_that_prints_its_error_as_output_is_shown_too():
    module = Module()
    module.run_command = lambda _command, **_options: (1, "no qmaster\n", "")
    with pytest.raises(ServiceError, match="qstat -xml failed: no qmaster"):
        commands.ask(module, "qstat", "-xml")


def test_commands_have_a_time_limit_and_start_in_a_directory_that_every_user_can_read():
    found = []
    module = Module()
    module.run_command = lambda command, **options: found.append((command, options)) or (0, "", "")
    assert commands.is_up(module)
    assert found == [(["timeout", "60", "qconf", "-sh"], {"cwd": "/"})]


@pytest.mark.parametrize(("answer", "found"), [("demo-master\n", True), (MISSING, False)])
def test_qmaster_is_up_when_it_answers(answer, found):
    assert commands.is_up(Module({"qconf -sh": answer})) is found


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_new_object_is_added_with_all_its_settings(check_mode):
    module = Module({"qconf -sq trainers": MISSING}, check_mode=check_mode)
    (difference,) = commands.converge(module, [QUEUE], up=True)
    assert (difference["before_header"], difference["before"]) == ("q trainers", "")
    assert settings(difference["after"]) == {"qname": "trainers", "slots": "8"}
    assert module.commands[1:] == ([] if check_mode else ["qconf -Aq trainers"])
    if not check_mode:
        assert settings(module.files["trainers"]) == {"qname": "trainers", "slots": "8", "priority": "0"}


def test_a_changed_object_keeps_what_an_operator_has_set():
    module = Module({"qconf -sq trainers": CURRENT})
    (difference,) = commands.converge(module, [QUEUE], up=True)
    assert (settings(difference["before"]), settings(difference["after"])) == ({"slots": "4"}, {"slots": "8"})
    assert module.commands[1:] == ["qconf -Mq trainers"]
    assert settings(module.files["trainers"]) == {"qname": "trainers", "slots": "8", "priority": "5"}


def test_an_object_that_is_as_desired_is_not_changed():
    module = Module({"qconf -sq trainers": CURRENT.replace("4", "8")})
    assert commands.converge(module, [QUEUE], up=True) == []
    assert module.commands == ["qconf -sq trainers"]


def test_the_configuration_always_exists_so_it_is_never_added():
    module = Module({"qconf -sconf global": "min_uid 100\nmailer /bin/mail\n"})
    commands.converge(module, [GLOBAL], up=True)
    assert module.commands == ["qconf -sconf global", "qconf -Mconf global"]
    assert settings(module.files["global"]) == {"min_uid": "0", "mailer": "/bin/mail"}


def test_the_scheduler_has_no_name():
    module = Module({"qconf -ssconf": "weight 1\n"})
    commands.converge(module, [SgeObject("sconf", "", {"weight": "0"}, None)], up=True)
    assert module.commands == ["qconf -ssconf", "qconf -Msconf settings"]


def test_before_qmaster_runs_all_objects_are_new():
    module = Module(check_mode=True)
    assert [each["before"] for each in commands.converge(module, [QUEUE, GLOBAL], up=False)] == ["", ""]
    assert module.commands == []


@pytest.mark.parametrize("check_mode", [False, True])
def test_the_resources_are_added_to_those_of_the_distribution(check_mode):
    module = Module({"qconf -sc": "#name shortcut\nslots s INT <= YES YES 1 1000\n"}, check_mode=check_mode)
    (difference,) = commands.converge_resources(module, up=True)
    assert difference["after"].splitlines() == ["exclusive excl BOOL EXCL YES YES 0 0", "gpu gpu INT <= YES YES 0 0"]
    assert module.commands[1:] == ([] if check_mode else ["qconf -Mc resources"])
    if not check_mode:
        assert [line.split()[0] for line in module.files["resources"].splitlines()] == ["slots", "exclusive", "gpu"]


def test_resources_that_are_there_are_not_written():
    table = "".join(f"{name} {row}\n" for name, row in configuration.RESOURCES.items())
    module = Module({"qconf -sc": table})
    assert commands.converge_resources(module, up=True) == []
    assert len(commands.converge_resources(Module(check_mode=True), up=False)) == 1


def test_hosts_and_members_are_read():
    group = "group_name @deeplearning\nhostlist demo-master demo-worker2\n"
    module = Module({"qconf -sel": "demo-master\ndemo-worker2\n", "qconf -shgrp @deeplearning": group})
    assert commands.nodes(module) == commands.members(module) == ["demo-master", "demo-worker2"]
    empty = Module({"qconf -sel": MISSING, "qconf -shgrp @deeplearning": "group_name @deeplearning\nhostlist NONE\n"})
    assert commands.nodes(empty) == commands.members(empty) == []
    assert commands.members(Module({"qconf -shgrp @deeplearning": MISSING})) == []


def test_running_jobs_of_all_users_are_listed_by_host():
    row = "<job_list><JB_job_number>12</JB_job_number><queue_name>trainers@demo-worker2</queue_name></job_list>"
    module = Module({"qstat -xml -g t -s rs -u *": f"<job_info>{row}</job_info>"})
    assert commands.jobs_by_host(module) == {"demo-worker2": ["12"]}
