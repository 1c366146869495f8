"""Processes that may not read and write everywhere, also where the tests run as root."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

_ABILITIES = "-dac_override,-dac_read_search"  # by which root passes over permissions


def humbly(*command: str | Path) -> list[str]:
    """*command* as one runs it bound by the permissions of files. Skips the test where nobody can be."""
    line = list(map(str, command))
    if os.geteuid() != 0:
        return line
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("root may write anywhere, and there is no setpriv to keep it from that")
    return [setpriv, f"--bounding-set={_ABILITIES}", f"--inh-caps={_ABILITIES}", *line]
