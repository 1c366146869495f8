"""What tests start is ended by them, whenever it ends."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from nursery import Child, nursery

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Start = Callable[[str], Child]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Start a process that does what a program says."""

    def start(program: str) -> Child:
        file = tmp_path / "program.py"
        file.write_text(program)
        return nursery.start([str(file)], dict(os.environ), tmp_path)

    return start


def test_a_process_may_end_just_before_its_signal(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    with start("raise SystemExit(3)") as process:
        process.wait()
        with monkeypatch.context() as patch:
            patch.setattr(process, "poll", lambda: None)  # as if that had been asked a moment earlier
            process.send_signal(0)  # harms nobody who has its number by now
        assert process.returncode == 3


def test_a_test_that_fails_leaves_no_process_behind(start: Start) -> None:
    with pytest.raises(AssertionError), start("import time; time.sleep(600)") as process:
        raise AssertionError("a test")
    assert process.returncode == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
