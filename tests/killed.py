"""Copies of a store that is open, as a kill of its process would leave its files."""

import shutil
from pathlib import Path


def copy_as_killed(directory: Path, copy: Path) -> Path:
    """Copy *directory* to *copy*, again for as long as LevelDB adds or removes a table meanwhile: a copy with
    the newer manifest, but without the newer table, is damaged as no kill leaves it."""
    while True:
        before = _files(directory)
        try:
            shutil.copytree(directory, copy)
            if _files(directory) == before:
                return copy
        except shutil.Error:  # LevelDB removed a file that was listed
            pass
        shutil.rmtree(copy)


def _files(directory: Path) -> set[Path]:
    return set(directory.rglob("*"))
