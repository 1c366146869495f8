"""Conformance vectors of other projects, beside the checkout; there are none where the folder is absent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scrapy_frontier.core.parse.headers import timestamp

VECTORS = Path(__file__).resolve().parents[2] / ".." / "shared" / "vectors"
NOW = 1_700_000_000.0  # 2023-11-14T22:13:20Z


def cases(name: str, part: str) -> list[Any]:
    """Those of *part* of the file *name* that nobody disputes, as parameters of a test."""
    path = VECTORS / f"{name}.json"
    found = json.loads(path.read_text("utf-8"))[part] if path.exists() else []
    return [pytest.param(case, id=case.get("id", part)) for case in found if not case.get("disputed")]


def clock(case: dict[str, Any]) -> float:
    """When *case* takes place (POSIX seconds)."""
    now = timestamp(case["now"]) if case.get("now") else NOW
    assert now is not None
    return now
