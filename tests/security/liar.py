"""A hostile node's Python: it runs everything with the real Python, and merges /etc/lies.json into the result of every module."""

import json
import subprocess
import sys

REAL = "/usr/bin/python3.real"


def merged(honest, lies):
    """Return a module result with the lies merged into it.

    If the lie for a list is an object, the object is merged into each member of the list.
    """
    if isinstance(honest, dict) and isinstance(lies, dict):
        return {**honest, **{key: merged(honest.get(key), lie) for key, lie in lies.items()}}
    if isinstance(honest, list) and isinstance(lies, dict):
        return [merged(each, lies) for each in honest]
    return lies


def main():
    done = subprocess.run([REAL, *sys.argv[1:]], stdin=sys.stdin, stdout=subprocess.PIPE, check=False)
    text = done.stdout
    try:
        answer = json.loads(text)
        with open("/etc/lies.json", encoding="utf-8") as file:
            lies = json.load(file)
    except ValueError:
        lies = None
    # Before ansible-core 2.21, results of modules contain `invocation`.
    if lies is not None and isinstance(answer, dict) and {"invocation", "changed", "failed"} & answer.keys():
        text = json.dumps(merged(answer, lies)).encode() + lies.get("after", "").encode()
    sys.stdout.buffer.write(text)
    sys.stdout.flush()
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
