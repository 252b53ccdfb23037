"""Access keys and their files."""

from __future__ import annotations

import json
import os
import secrets
import string
from dataclasses import asdict, dataclass, field
from pathlib import Path

KEY_LETTERS = string.ascii_uppercase + "234567"
SECRET_LETTERS = string.ascii_letters + string.digits + "+/"


def _secret() -> str:
    return "".join(secrets.choice(SECRET_LETTERS) for _ in range(40))


@dataclass(frozen=True)
class Credentials:
    """An access key. The default is a new random key."""

    access_key_id: str = field(default_factory=lambda: "AKIA" + "".join(secrets.choice(KEY_LETTERS) for _ in range(16)))
    secret_access_key: str = field(default_factory=_secret, repr=False)

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables for AWS tools."""
        return {"AWS_ACCESS_KEY_ID": self.access_key_id, "AWS_SECRET_ACCESS_KEY": self.secret_access_key}

    def write(self, path: Path) -> None:
        """Write a file that only its owner can read. Raises `FileExistsError`."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(asdict(self), file)

    @classmethod
    def read(cls, path: Path) -> Credentials | None:
        """Return the credentials in a file that `write` wrote, or None if the file does not exist."""
        try:
            return cls(**json.loads(path.read_text()))
        except FileNotFoundError:
            return None
