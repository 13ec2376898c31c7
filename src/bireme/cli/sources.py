"""Where manifests come from: files, folders and standard input."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click

STDIN = "-"
_SUFFIXES = (".yaml", ".yml", ".json")


class Source(NamedTuple):
    """A manifest's bytes, the name that messages give it, and its file, if it has one."""

    name: str
    data: bytes
    file: Path | None


def read_sources(names: Sequence[str], *, recursive: bool | None = None) -> Iterator[Source]:
    """Read each name in turn: a file, a folder (its manifests, sorted by name) or `-`.

    `recursive` is None for a command that has no such option.
    """
    for name in names:
        if name == STDIN:
            yield Source("<stdin>", sys.stdin.buffer.read() if sys.stdin else b"", None)
        elif Path(name).is_dir():
            yield from _read_folder(Path(name), recursive=recursive)
        else:
            yield _read_file(Path(name))


def _read_folder(folder: Path, *, recursive: bool | None) -> Iterator[Source]:
    found = sorted(folder.rglob("*") if recursive else folder.iterdir())
    files = [file for file in found if file.suffix in _SUFFIXES and file.is_file()]
    if not files:
        hint = "; --recursive looks into its folders too" if recursive is False else ""
        raise click.UsageError(f"{folder}: no {', '.join(_SUFFIXES)} file in this folder{hint}")
    for file in files:
        yield _read_file(file)


def _read_file(file: Path) -> Source:
    try:
        return Source(str(file), file.read_bytes(), file)
    except OSError as error:
        raise click.UsageError(f"{file}: {(error.strerror or str(error)).lower()}") from error
