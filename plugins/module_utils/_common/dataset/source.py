# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Parses and checks data set sources, derives data set names from the sources, and identifies versions of the data.

All functions are pure.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import AbstractSet, Any, Collection, Iterable, Iterator, Mapping, NamedTuple, Sequence, Tuple
from urllib.parse import unquote, urlsplit

S3, URL, PATH, SEVERAL = "s3", "url", "path", "several"
SHARED, LOCAL, DIRECT = "shared", "local", "direct"
DESTINATIONS = (SHARED, LOCAL, DIRECT)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
FOLDER = re.compile(rf"{NAME.pattern}(/{NAME.pattern}){{0,9}}")
# The name prefix of the files that describe a data set. These files are in the top-level folder of the data set.
DESCRIBING = ".dataset."
ARCHIVE = re.compile(r"\.(tar|tgz|tbz2|txz|tzst|tar\.(gz|bz2|xz|zst)|zip)$", re.IGNORECASE)
# The ends of the names of parts, as `split` and archivers write them.
PART = re.compile(
    r"\.(t(ar|gz|bz2|xz|zst)|tar\.\w+|zip|7z)\.(part-?)?(\d{1,4}|[a-c][a-y])$|\.z\d\d$|\.part\d+\.rar$",
    re.IGNORECASE,
)
# The storage classes whose objects must be restored before they can be read.
ARCHIVED = ("GLACIER", "DEEP_ARCHIVE")
# Control characters, and all line breaks that `str.splitlines` recognizes.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# The end of the names of directory buckets, for which the nodes have no permissions.
DIRECTORY_BUCKET = "--x-s3"
HASHES = {"md5": 32, "sha1": 40, "sha256": 64, "sha512": 128}

# The maximum number of bytes in the name of a file or folder (NAME_MAX).
NAME_BYTES = 255
# Maximum number of names in a message, and of characters of a name.
NAMED, SHOWN = 5, 200

# The path of a file in the data set, and the size of the file in bytes.
DatasetFile = Tuple[str, int]


class DataError(Exception):
    """A problem that the user can fix. The message states the problem and the remedy."""


class DeniedError(DataError):
    """S3 denied access."""


class Source(NamedTuple):
    """A parsed source. `bucket` and `key` are set only for sources on S3."""

    kind: str
    text: str
    bucket: str = ""
    key: str = ""

    @property
    def shown(self) -> str:
        """The source as shown in messages. The query string of a URL is omitted, because it may contain a signature."""
        return self.text.partition("?")[0] if self.kind == URL else self.text

    @property
    def basename(self) -> str:
        path = unquote(urlsplit(self.text).path) if self.kind == URL else self.key or self.bucket or self.text
        return os.path.basename(path.rstrip("/"))


def parse(text: str) -> Source:
    """Return the parsed source. Raises DataError if the source cannot be staged."""
    if name_problem(text):
        raise DataError(f"dataset_source: {text[:200]!a} contains control characters, or is not UTF-8. Correct the source.")
    if text.startswith("s3://"):
        bucket, _slash, key = text[len("s3://") :].partition("/")
        if bucket and not bucket.endswith(DIRECTORY_BUCKET):
            return Source(S3, text, bucket, key)
    elif text.startswith(("https://", "http://")):
        source = Source(URL, text)
        if source.basename:
            return source
    elif text.startswith("/"):
        return Source(PATH, text)
    raise DataError(
        f"dataset_source: '{text}' is not supported. Use s3://bucket/prefix of a general purpose bucket, the https:// URL of a file, or an "
        "absolute path on the controller."
    )


def parse_s3(option: str, text: str) -> Source:
    """Return the parsed S3 location that an option specifies. Raises DataError if the text is not an S3 location."""
    source = parse(text) if text.startswith("s3://") else None
    if source is None:
        raise DataError(f"{option}: '{text}' is not supported. Use shared, local, direct, or a location on S3 such as s3://bucket/prefix.")
    return source


def name_of(source: Source, name: str | None) -> str:
    """Return the data set's name. The default name is the last part of the source's path, without any archive suffix. Raises DataError."""
    result = name or re.sub(r"[^A-Za-z0-9._-]+", "-", ARCHIVE.sub("", source.basename)).lstrip("._-")[:100]
    if not NAME.fullmatch(result):
        raise DataError(
            f"dataset_name: '{result}' is not a valid name. Use at most 100 letters, digits, '.', '_' and '-', and begin with a letter or "
            "digit."
        )
    return result


def name_of_set(spec: Mapping[str, Any]) -> str:
    """Return the name of a data set that has one or several sources. Raises DataError."""
    return name_of(all_sources(spec) if spec["sources"] else parse(spec["source"]), spec["name"])


def all_sources(spec: Mapping[str, Any]) -> Source:
    return Source(SEVERAL, ", ".join(parse(each["source"]).shown for each in spec["sources"]))


def parts_of(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the options of each source: the source's own options combined with the options of the data set."""
    return [{**spec, **each} for each in spec["sources"]]


def check_sources(spec: Mapping[str, Any]) -> None:
    """Raise DataError unless there is either one source, or a valid list of several sources."""
    if not spec["sources"]:
        if not spec["source"]:
            raise DataError(
                "dataset_source: no source is specified. Set dataset_source to s3://bucket/prefix, the URL of a file, or an absolute path "
                "on the controller."
            )
        return
    for option in ("source", "checksum", "unpack"):
        if spec[option]:
            raise DataError(f"dataset_{option}: cannot be combined with dataset_sources. Set {option} in the entries of dataset_sources.")
    if spec["destination"] == DIRECT:
        raise DataError(
            "dataset_destination: 'direct' supports only one source. Set dataset_destination to shared, local or a location on S3."
        )
    if not spec["name"]:
        raise DataError("dataset_name: several sources have no default name. Specify a name.")
    for part in parts_of(spec):
        _check_part(part)


def _check_part(part: Mapping[str, Any]) -> None:
    source = parse(part["source"])
    if source.kind == PATH:
        raise DataError(
            f"dataset_sources: '{source.text}' is a path on the controller. Use sources on S3 and URLs, or upload the files to S3 first."
        )
    if part["folder"] and not FOLDER.fullmatch(part["folder"]):
        raise DataError(
            f"dataset_sources: the folder '{part['folder']}' is not valid. Use a relative path such as train/images. The names in the path "
            "consist of letters, digits, '.', '_' and '-', and begin with a letter or digit."
        )
    check_options(part, source)


def parse_checksum(text: str) -> tuple[str, str]:
    """Return the algorithm and the digest of a checksum such as `sha256:0123...`. Raises DataError."""
    algorithm, _colon, digest = text.partition(":")
    digest = digest.strip().lower()
    if len(digest) != HASHES.get(algorithm) or not re.fullmatch("[0-9a-f]+", digest):
        raise DataError(
            f"dataset_checksum: '{text}' is not a valid checksum. Use one of {', '.join(sorted(HASHES))}, followed by a colon and the "
            "hexadecimal digest."
        )
    return algorithm, digest


def check_options(spec: Mapping[str, Any], source: Source) -> None:
    """Raise DataError if `destination`, `unpack` or `checksum` is not valid for the source, or contradicts another option."""
    destination = spec["destination"]
    if destination not in DESTINATIONS:
        if not parse_s3("dataset_destination", destination).key.strip("/"):
            example = f"{destination.rstrip('/')}/data"
            raise DataError(f"dataset_destination: '{destination}' has no prefix. Add a prefix, such as {example}.")
        if source.kind == PATH and spec["unpack"]:
            raise DataError(
                "dataset_unpack: is not supported for uploads from the controller to S3. Unpack the data first, or stage the data from S3."
            )
    if destination == DIRECT:
        obstacles = {f"dataset_source '{source.shown}' is not on S3": "specify a dataset_source on S3"} if source.kind != S3 else {}
        obstacles.update({f"dataset_{option} is set": f"remove dataset_{option}" for option in ("unpack", "checksum") if spec[option]})
        if obstacles:
            raise DataError(
                f"dataset_destination: 'direct' reads the data from S3 unchanged, but {' and '.join(obstacles)}. "
                f"To use 'direct', {' and '.join(obstacles.values())}. Otherwise, set dataset_destination to shared or local."
            )
    if spec["checksum"]:
        parse_checksum(spec["checksum"])


def is_archive(path: str) -> bool:
    return ARCHIVE.search(path) is not None


def check_parts(paths: Iterable[str], shown: str) -> None:
    """Raise DataError if a file is a part of a split archive. `shown` is the source in messages."""
    part = next((path for path in paths if PART.search(path) and not is_archive(path)), "")
    if part:
        raise DataError(
            f"dataset_unpack: {part[:SHOWN]!a} in {shown} is a part of a split archive. Join the parts first, for example with cat, or set "
            "dataset_unpack: false."
        )


def listed(lines: Iterable[str], source: Source, archived: list[str]) -> tuple[list[tuple[str, int, str]], bool]:
    """Return a sorted list of (path, size, ETag) tuples for the objects of a source, and whether the source is a single object.

    `lines` is the text output of `aws s3api list-objects-v2` with the query `s3.OBJECTS`. It contains one JSON list for each object. If the
    source's own key is in the list, the source is that object. If the list does not contain the source's own key, the source is a folder.
    Keys outside the folder do not belong to the source, even if they begin with the source's key. Empty objects with the name of a folder
    are markers, which some programs create for folders. Raises DataError if the source is both an object with data and a folder.

    The keys of objects that must be restored before they can be read are added to `archived`.
    """
    folder = source.key if not source.key or source.key.endswith("/") else source.key + "/"
    found, own = [], None
    for size, tag, key, storage_class in _objects(lines):
        if key == source.key and not key.endswith("/"):
            own = (source.basename, size, tag)
        elif key.startswith(folder) and not key.startswith(folder + DESCRIBING):
            found.append((key[len(folder) :], size, tag))
        else:
            continue
        archived += [key] * (storage_class in ARCHIVED)
    if own and not found:
        return [own], True
    if own and own[1]:
        raise DataError(
            f"dataset_source: {source.shown} is an object, and a folder of other objects such as {min(found)[0][:SHOWN]!a}. To stage only"
            f" the folder, specify {source.shown}/. To stage only the object, rename it with aws s3 mv."
        )
    return sorted(found), False


def _objects(lines: Iterable[str]) -> Iterator[tuple[int, str, str, str]]:
    """Yield the size, ETag, key and storage class of each object in the output of the AWS CLI, without empty objects like `folder/`."""
    for line in lines:
        if line.startswith("["):  # the AWS CLI prints None for a page without objects
            size, tag, key, storage_class = json.loads(line)
            if size or not key.endswith("/"):
                yield size, tag, key, storage_class


def split_markers(files: Sequence[DatasetFile]) -> tuple[list[DatasetFile], list[str]]:
    """Return the files, and the paths of the empty objects that are markers, because other files are in a folder with this path."""
    above = _folders(path for path, _size in files)
    markers = [path for path, size in files if not size and path in above]
    return [file for file in files if file[1] or file[0] not in above], markers


def _folders(paths: Iterable[str]) -> set[str]:
    """Return the paths of all folders above the paths, without a slash at the end."""
    above = set()
    for path in paths:
        while "/" in path and path.rpartition("/")[0] not in above:
            path = path.rpartition("/")[0]
            above.add(path)
    return above


def name_problem(path: str) -> str:
    """Return why a data set cannot contain a file with this path, or an empty string if it can.

    The lists of files contain one path per line.
    """
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return "has a name that is not UTF-8"
    return "has a name with control characters" if CONTROL.search(path) else ""


def path_problem(path: str, above: AbstractSet[str]) -> str:
    """Return why the name of an object cannot be the path of a file, or an empty string if it can.

    `above` contains the folders of all files. The AWS CLI would drop empty parts, resolve dots, or fail at the end of the download.
    """
    parts = path.split("/")
    if path.endswith("/"):
        return "has data, although its name is that of a folder"
    if "" in parts:
        return "has an empty part between slashes"
    if "." in parts or ".." in parts:
        return f"has the part '{'..' if '..' in parts else '.'}', which is not the name of a file or folder"
    longest = max(len(part.encode("utf-8", "replace")) for part in parts)
    if longest > NAME_BYTES:
        return f"has a part of {longest} bytes, but at most {NAME_BYTES} are possible"
    return "is a file, and also a folder of other files" if path in above else ""


def check_names(files: Collection[DatasetFile], source: Source, *, are_paths: bool = False) -> None:
    """Raise DataError if a data set cannot contain one of the files of a source. If `are_paths` is true, the names become paths."""
    above = _folders(path for path, _size in files) if are_paths else set()
    problems = ((path, name_problem(path) or (path_problem(path, above) if are_paths else "")) for path, _size in files)
    wrong = [f"{path[:SHOWN]!a} {problem}" for path, problem in problems if problem]
    if wrong:
        more = f", and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""
        advice = "Rename the objects, for example with aws s3 mv." if source.kind == S3 else "Rename the files."
        raise DataError(f"dataset_source: {source.shown} cannot be staged: {', '.join(wrong[:NAMED])}{more}. {advice}")


def fingerprint(*facts: Any) -> str:
    """Return a digest of the values, as twelve hexadecimal digits."""
    total = hashlib.sha256()
    for fact in facts:
        total.update(repr(fact).encode() + b"\0")
    return total.hexdigest()[:12]


def human(size: float) -> str:
    """Return a number of bytes in human-readable form, such as `1.5 GiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
