"""A whole service as a process: ``listings serve`` or single components, in a data folder of the test."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

READY_SECONDS = 60.0
STOP_SECONDS = 12.0
JOB_SECONDS = 60.0
TERMINAL = ("completed", "failed", "cancelled")


@dataclass
class Answer:
    """A REST answer."""

    status: int
    headers: dict[str, str]
    body: Any


class Command:
    """A running command ``listings``; what it prints is kept in ``lines``."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self.process = process
        self.errors = errors
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout:
            for line in self.process.stdout:
                with self._changed:
                    self.lines.append(line)
                    self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def until_ready(self) -> str:
        """Wait for its ready line; the address on it (empty for a worker, which has none)."""

        def line() -> str | None:
            return next((line for line in self.lines if "ready on " in line or " ready, " in line), None)

        with self._changed:
            self._changed.wait_for(lambda: line() or not self._reader.is_alive(), READY_SECONDS)
        found = line()
        assert found is not None, f"not ready: {self.lines} {self.said()}"
        return found.partition("ready on ")[2].partition(" ")[0].strip()

    def said(self) -> str:
        """Standard error so far."""
        return self.errors.read_text()

    def stop(self, number: int = signal.SIGINT) -> float:
        """Ask it to stop; it must end with 0. Returns the seconds it took."""
        began = time.monotonic()
        self.process.send_signal(number)
        assert self.wait() == 0, self.said()
        return time.monotonic() - began

    def wait(self) -> int:
        """Its exit code, once it has ended by itself."""
        code = self.process.wait(STOP_SECONDS)
        self._reader.join(STOP_SECONDS)
        return code


class Installation:
    """A data folder and the environment of its processes. All ports are free ones."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("LISTINGS_")}
        chosen = {
            "data_dir": str(self.data),
            "http_addr": "127.0.0.1:0",
            "grpc_addr": "127.0.0.1:0",
            "sandbox_addr": "127.0.0.1:0",
            "poll_seconds": "0.1",
            **settings,
        }
        self.environment |= {f"LISTINGS_{name.upper()}": value for name, value in chosen.items()}
        self._commands: list[Command] = []

    def start(self, *arguments: str, **settings: str) -> Command:
        """Start a command; it may not be ready yet."""
        errors = self.folder / f"errors-{len(self._commands)}.txt"
        more = {f"LISTINGS_{name.upper()}": value for name, value in settings.items()}
        with errors.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "listings", *arguments],
                env=self.environment | more,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                start_new_session=True,
            )
        command = Command(process, errors)
        self._commands.append(command)
        return command

    def run(self, *arguments: str, **settings: str) -> tuple[int, str, str]:
        """A command to its end: (exit code, standard output, standard error)."""
        command = self.start(*arguments, **settings)
        command.process.wait(JOB_SECONDS)
        return command.wait(), "".join(command.lines), command.said()

    @contextlib.contextmanager
    def serving(self, *arguments: str, **settings: str) -> Iterator[Service]:
        """A ready ``serve``; stopped at the end of the block unless it was before."""
        command = self.start("serve", *arguments, **settings)
        base_url = command.until_ready()
        yield Service(self, command, base_url)
        if command.process.poll() is None:
            command.stop()

    def demo(self) -> dict[str, Any]:
        """What demo.json says."""
        found = json.loads((self.data / "demo.json").read_text())
        assert isinstance(found, dict)
        return found

    def processes(self) -> dict[int, str]:
        """Command lines, by id, of the living processes that have this data folder in their environment, or (as
        PostgreSQL has) as their working folder."""
        found = {}
        mark = f"LISTINGS_DATA_DIR={self.data}".encode()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal() or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                ours = mark in (entry / "environ").read_bytes().split(b"\0")
                if ours or (entry / "cwd").readlink().is_relative_to(self.data):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        return {pid: line for pid, line in found.items() if line}

    def clean_up(self) -> None:
        """Kill whatever a failed test left."""
        for command in self._commands:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(command.process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                command.process.wait(STOP_SECONDS)
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@dataclass
class Service:
    """A ready service and its REST face."""

    installation: Installation
    command: Command
    base_url: str

    def call(self, method: str, path: str, key: str, body: Any = None) -> Answer:
        """One REST call."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"X-API-Key": key, "Content-Type": "application/json"}
        request = urllib.request.Request(self.base_url + path, data=data, method=method, headers=headers)  # noqa: S310
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=30) as answer:
                return Answer(answer.status, dict(answer.headers), json.loads(answer.read() or b"null"))
        except urllib.error.HTTPError as error:
            return Answer(error.code, dict(error.headers), json.loads(error.read() or b"null"))

    def publish(self, key: str, skus: list[str]) -> str:
        """A job of these SKUs; its id."""
        body = {"items": [{"sku": sku, "auto_categorize": True} for sku in skus]}
        answer = self.call("POST", "/products", key, body)
        assert answer.status == 202, answer
        return str(answer.body["job_id"])

    def job(self, key: str, job_id: str) -> dict[str, Any]:
        """The job's summary."""
        answer = self.call("GET", f"/products/jobs/{job_id}?limit=1", key)
        assert answer.status == 200, answer
        found = answer.body["job"]
        assert isinstance(found, dict)
        return found

    def until_done(self, key: str, job_id: str) -> dict[str, Any]:
        """The job once it is over."""
        job: dict[str, Any] = until(lambda: self.job(key, job_id), lambda found: found["status"] in TERMINAL)
        return job


def until(look: Callable[[], Any], fits: Callable[[Any], bool] = bool, seconds: float = JOB_SECONDS) -> Any:
    """What ``look`` finds once it fits; fails when it does not within the time."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if fits(found):
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
