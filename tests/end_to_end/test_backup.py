"""Backup while everything runs, and restore: of the embedded database, for real."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.serve import Installation, Service, until


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    """A data folder of the test."""
    made = Installation(tmp_path)
    yield made
    made.clean_up()


def listing_ids(service: Service, key: str, job_id: str) -> dict[str, str]:
    """Listings of a job's items by SKU."""
    items = service.call("GET", f"/products/jobs/{job_id}", key).body["items"]
    return {item["sku"]: item["listing_id"] for item in items}


def test_a_backup_made_while_everything_runs_brings_all_of_it_back(installation: Installation) -> None:
    backup = installation.folder / "monday.dump"
    with installation.serving() as service:
        demo = installation.demo()
        before = service.publish(demo["test_key"], demo["skus"][:5])
        assert service.until_done(demo["test_key"], before)["successful"] == 5
        code, out, said = installation.run("backup", str(backup))
        assert code == 0, said
        assert "bytes" in out
        assert backup.stat().st_mode & 0o777 == 0o600
        after = service.publish(demo["test_key"], demo["skus"][5:7])
        service.until_done(demo["test_key"], after)
        made = listing_ids(service, demo["test_key"], after)
        code, _, said = installation.run("restore", str(backup), "--yes")
        assert code == 2
        assert "served by process" in said

    code, out, said = installation.run("restore", str(backup))
    assert code == 2
    assert "--yes" in said
    code, out, said = installation.run("restore", str(backup), "--yes")
    assert code == 0, said
    assert "Restored" in out

    with installation.serving() as service:
        assert service.job(demo["test_key"], before)["successful"] == 5
        assert service.call("GET", f"/products/jobs/{after}", demo["test_key"]).status == 404
        # The catalogue, the keys, the tokens and the worker's tables came back: publishing goes on, and what the
        # marketplace got since the backup is found there instead of being made twice.
        again = service.publish(demo["test_key"], demo["skus"][5:7])
        assert service.until_done(demo["test_key"], again)["successful"] == 2
        assert listing_ids(service, demo["test_key"], again) == made
    until(lambda: not installation.processes())


def test_a_backup_goes_to_another_machine_with_the_secret_key(installation: Installation, tmp_path: Path) -> None:
    backup = tmp_path / "all.dump"
    with installation.serving():
        demo = installation.demo()
        assert installation.run("backup", str(backup))[0] == 0
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    other = Installation(folder)
    try:
        assert other.run("restore", str(backup), "--yes")[0] == 0
        code, _, said = other.run("serve")
        assert code == 2
        assert "LISTINGS_SECRET_KEY" in said
        key = (installation.data / "secret.key").read_text().strip()
        with other.serving(secret_key=key) as service:
            job_id = service.publish(demo["test_key"], demo["skus"][:3])
            assert service.until_done(demo["test_key"], job_id)["successful"] == 3
    finally:
        other.clean_up()


def test_what_is_no_backup_changes_nothing(installation: Installation) -> None:
    nonsense = installation.folder / "nonsense.dump"
    nonsense.write_text("SELECT 1")
    with installation.serving() as service:
        demo = installation.demo()
        job_id = service.publish(demo["test_key"], demo["skus"][:1])
        service.until_done(demo["test_key"], job_id)
    code, _, said = installation.run("restore", str(nonsense), "--yes")
    assert code == 2
    assert "pg_restore failed" in said
    assert installation.run("restore", str(installation.folder / "absent.dump"), "--yes")[0] == 2
    with installation.serving() as service:
        assert service.job(demo["test_key"], job_id)["successful"] == 1
