"""A stub of Ansible's modules."""

from __future__ import annotations


class ExitError(Exception):
    """The module has ended with this result, or with a failure, whose message is also that of the exception."""

    def __init__(self, **result):
        super().__init__(result.get("msg", result))
        self.result = result


class Module:
    """Records commands, the files in /tmp that they read, and warnings.

    For each command, `answers` contains the output, or the exit status and the error. It can also be a function of the command. Commands
    that are not in `answers` succeed without output.
    """

    def __init__(self, answers=None, *, check_mode=False, **params):
        self.answers, self.check_mode, self.params = answers or {}, check_mode, params
        self.commands, self.files, self.warnings = [], {}, []

    def run_command(self, command, **_options):
        words = command[2:] if command[0] == "timeout" else command
        if words[-1].startswith("/tmp/"):
            name = words[-1].rpartition("/")[2]
            with open(words[-1]) as file:
                self.files[name] = file.read()
            words = [*words[:-1], name]
        self.commands.append(" ".join(words))
        answer = self.answers(self.commands[-1]) if callable(self.answers) else self.answers.get(self.commands[-1], "")
        return (0, answer, "") if isinstance(answer, str) else (answer[0], "", answer[1])

    def backup_local(self, path):
        return f"{path}.4711.2026-11-28@08:00:00~"

    def warn(self, text):
        self.warnings.append(text)

    def exit_json(self, **result):
        raise ExitError(**result)

    fail_json = exit_json
