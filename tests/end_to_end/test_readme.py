"""README.md's walk, typed as it stands there, against a service started by the command it names."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
READY_SECONDS = 60
STOP_SECONDS = 20


def shell_blocks() -> list[str]:
    """The blocks of shell commands of README.md, in order."""
    return re.findall(r"^```sh\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder like a clone in which ``make run`` runs: ``.venv`` and, once ready, ``.listings``."""
    place = tmp_path_factory.mktemp("readme")
    (place / ".venv").symlink_to(sys.prefix)
    free = {f"LISTINGS_{name}_ADDR": "127.0.0.1:0" for name in ("HTTP", "GRPC", "SANDBOX")}
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LISTINGS_")}
    serve = subprocess.Popen(
        [sys.executable, "-m", "listings", "serve"],
        cwd=place,
        env=clean | free | {"PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines: list[str] = []
    ready = threading.Event()

    def read() -> None:
        assert serve.stdout is not None
        for line in serve.stdout:
            lines.append(line)
            if line.startswith("ready on "):
                ready.set()
        ready.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        assert ready.wait(READY_SECONDS), "".join(lines)
        assert serve.poll() is None, "".join(lines)
        yield place
    finally:
        serve.send_signal(signal.SIGINT)
        try:
            code = serve.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            serve.kill()
            serve.wait()
            raise
        reader.join(STOP_SECONDS)
    assert code == 0, "".join(lines)


def documents(text: str) -> list[dict[str, object]]:
    """The JSON documents that a walk printed, other lines left out."""
    found = []
    decoder = json.JSONDecoder()
    position = text.find("{")
    while position >= 0:
        document, end = decoder.raw_decode(text, position)
        found.append(document)
        position = text.find("{", end)
    return found


@pytest.mark.timeout(300)
def test_the_walk_works_as_written(folder: Path) -> None:
    commands, *walk = shell_blocks()
    finished = subprocess.run(
        ["bash", "-c", "\n".join(["set -eu", *walk])],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    shown = documents(finished.stdout)
    demo = json.loads((folder / ".listings" / "demo.json").read_text(encoding="utf-8"))
    count = len(demo["skus"])

    assert finished.returncode == 0, finished.stderr
    assert "make run" in commands
    assert "make test" in commands
    tested, products, promoted, account, left, problem = shown
    assert tested["job"]["environment"] == "test"  # type: ignore[index]
    assert (tested["job"]["status"], tested["job"]["successful"]) == ("completed", count)  # type: ignore[index]
    assert products["pagination"]["total"] == count  # type: ignore[index]
    assert promoted["job"]["kind"] == "promotion"  # type: ignore[index]
    assert (promoted["job"]["status"], promoted["job"]["successful"]) == ("completed", count)  # type: ignore[index]
    assert account["credits"]["used_live"] == count  # type: ignore[index]
    assert left["products"] == []
    assert problem["code"] == "E_PRODUCT_INVALID_SKU"
    results = re.findall(r"^(\d+) ([0-9A-Za-z]{10}) success MCO\d+ \d+$", finished.stdout, re.MULTILINE)
    assert [int(sequence) for sequence, _ in results] == list(range(1, count + 1))
    assert {sku for _, sku in results} == set(demo["skus"])
