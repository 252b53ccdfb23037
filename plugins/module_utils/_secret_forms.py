# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Replaces secrets in text, also as programs quote and encode them. A hostile program can always encode a secret in another way."""

from __future__ import annotations

import json
import re
from typing import Callable, Iterable, Iterator
from urllib.parse import quote, quote_plus

# Shorter secrets, and shorter lines of secrets, such as a single brace, are not replaced, because they are also parts of other words.
SHORTEST = 4


def mask(text: str, secrets: Iterable[str], replacement: str, normalize: Callable[[str], str] = str) -> str:
    """Return a text with `replacement` in place of secrets. `normalize` is what has already been done to the text."""
    hidden = forms(secrets, normalize)
    return re.sub("|".join(map(re.escape, hidden)), lambda _found: replacement, text) if hidden else text


def forms(secrets: Iterable[str], normalize: Callable[[str], str] = str) -> list[str]:
    """Return the texts that show secrets, the longest ones first, so that no part of a secret remains beside a shorter one."""
    found = {normalize(form) for secret in secrets for text in (secret, *secret.splitlines()) for form in _forms(text)}
    return sorted((form for form in found if len(form.strip()) >= SHORTEST), key=len, reverse=True)


def _forms(text: str) -> Iterator[str]:
    """Yield a text as it is, in the notation of Python, JSON and shells, and as a part of a URL."""
    yield text
    for apostrophe in ("'\\''", "'\"'\"'", "\\'"):
        yield text.replace("'", apostrophe)
    yield quote(text, safe="!'()*", errors="replace")
    for literal in (repr(text), ascii(text), json.dumps(text), json.dumps(text, ensure_ascii=False)):
        yield literal[1:-1]
    yield repr(text.encode(errors="replace"))[2:-1]
    for encode in (quote, quote_plus):
        yield encode(text, safe="", errors="replace")
        yield encode(text, safe="/", errors="replace")
