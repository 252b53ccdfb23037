"""A stub of a module on a host where qmaster responds, for tests of SGE."""

from __future__ import annotations


class ExitError(Exception):
    """The module has exited with this result."""

    def __init__(self, **result):
        super().__init__(result)
        self.result = result


class Module:
    """Records commands and the files that they read.

    For each command, `answers` contains the output, or the exit status and the error. Commands that are not in `answers` succeed without
    output.
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
        text = " ".join(words)
        self.commands.append(text)
        answer = self.answers.get(text, "")
        return (0, answer, "") if isinstance(answer, str) else (answer[0], "", answer[1])

    def warn(self, text):
        self.warnings.append(text)

    def exit_json(self, **result):
        raise ExitError(**result)


# The status and the message of qconf for an object that does not exist.
MISSING = (1, "no such object")
