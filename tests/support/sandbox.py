"""A sandbox marketplace in a process of its own, and its operator's side (docs/sandbox.md)."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parents[2] / "src"
READY_SECONDS = 20.0
STOP_SECONDS = 10.0


class RunningSandbox:
    """One sandbox. Calls to its operator's side block: they are short, and the sandbox is another process."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url

    def call(self, method: str, path: str, body: object = None) -> Any:
        """One request to the operator's side; raises on anything but success."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)  # noqa: S310
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=10) as answer:
            return json.loads(answer.read() or b"null")

    def add_fault(self, fault: str, **rule: object) -> int:
        """Add a rule of this kind; returns its id."""
        added = self.call("POST", "/sandbox/faults", {"fault": fault, **rule})
        assert isinstance(added["id"], int)
        return added["id"]

    def clear_faults(self) -> None:
        """Remove every rule."""
        self.call("DELETE", "/sandbox/faults")

    def fired(self) -> dict[str, int]:
        """How often each kind of fault struck since the start."""
        counts = self.call("GET", "/sandbox/faults")["fired_by_kind"]
        assert isinstance(counts, dict)
        return counts

    def requests(self, operation: str) -> int:
        """Requests of this operation since the start."""
        return int(self.call("GET", "/sandbox/counters")["requests"].get(operation, 0))

    def items(self, **query: object) -> list[dict[str, Any]]:
        """Items as they stand (user, sku, status, limit)."""
        words = "&".join(f"{name}={value}" for name, value in query.items())
        found = self.call("GET", f"/sandbox/items?{words}")["items"]
        assert isinstance(found, list)
        return found

    def change_user(self, user_id: int, **changes: object) -> None:
        """Change a marketplace user (model, site_id, list_allow, ...)."""
        self.call("POST", f"/sandbox/users/{user_id}", changes)

    def change_item(self, listing_id: str, **changes: object) -> None:
        """Change an item as the platform would."""
        self.call("POST", f"/sandbox/items/{listing_id}", changes)

    def stop(self) -> None:
        """End the process; kill it when it does not end in time."""
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(STOP_SECONDS)


@contextlib.contextmanager
def run_sandbox(*arguments: str) -> Iterator[RunningSandbox]:
    """A sandbox on a free port, with these arguments of ``python -m sandbox``."""
    process = subprocess.Popen(
        [sys.executable, "-m", "sandbox", "--addr", "127.0.0.1:0", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
    )
    try:
        running = RunningSandbox(process, _ready_url(process))
        yield running
    finally:
        RunningSandbox(process, "").stop()
        assert process.stdout is not None
        process.stdout.close()


def _ready_url(process: subprocess.Popen[str]) -> str:
    """The address on the ready line."""
    assert process.stdout is not None
    until = time.monotonic() + READY_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while time.monotonic() < until and process.poll() is None:
            if selector.select(0.2):
                line = process.stdout.readline()
                if " ready on " in line:
                    return line.rsplit(" ", 1)[1].strip()
    raise AssertionError("the sandbox did not become ready")
