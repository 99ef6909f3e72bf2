"""Backup while everything runs, and restore: of the embedded database, for real."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from core.storage.backup import dump
from core.storage.embedded import EmbeddedPostgres
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


def test_what_a_newer_version_added_is_gone_after_a_restore(installation: Installation) -> None:
    backup = installation.folder / "before-the-upgrade.dump"
    with installation.serving():
        assert installation.run("backup", str(backup))[0] == 0
    added = ("newer", "newer_numbers", "newer_view", "newer_kind")
    with EmbeddedPostgres(installation.data) as server, psycopg.connect(server.url) as connection:
        connection.execute(
            "CREATE TYPE newer_kind AS ENUM ('a');"
            "CREATE TABLE newer (newer_id bigserial, seller_id bigint REFERENCES sellers, kind newer_kind);"
            "CREATE SEQUENCE newer_numbers;"
            "CREATE VIEW newer_view AS SELECT 1 AS one"
        )

    code, _, said = installation.run("restore", str(backup), "--yes")

    assert code == 0, said
    with EmbeddedPostgres(installation.data) as server, psycopg.connect(server.url) as connection:
        for name in added:
            assert connection.execute("SELECT to_regclass(%s), to_regtype(%s)", (name, name)).fetchone() == (None, None)
        assert connection.execute("SELECT count(*) FROM sellers").fetchone() == (1,)


def test_a_backup_of_another_program_changes_nothing(installation: Installation) -> None:
    foreign = installation.folder / "foreign.dump"
    with installation.serving():
        pass
    with EmbeddedPostgres(installation.data) as server:
        other = server.url.replace("/listings?", "/other?")
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE DATABASE other")
        with psycopg.connect(other, autocommit=True) as connection:
            connection.execute("CREATE TABLE schema_migrations (version integer); SELECT lo_from_bytea(0, 'x')")
        dump(other, foreign)

    code, _, said = installation.run("restore", str(foreign), "--yes")

    assert code == 2
    assert "something else" in said
    with EmbeddedPostgres(installation.data) as server, psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT count(*) FROM sellers").fetchone() == (1,)


def test_a_restore_that_the_database_refuses_changes_nothing(installation: Installation) -> None:
    """Large objects in it too: pg_restore would write each in a transaction of its own."""
    backup = installation.folder / "with-a-large-object.dump"
    with installation.serving():
        pass
    with EmbeddedPostgres(installation.data) as server:
        with psycopg.connect(server.url) as connection:
            connection.execute("SELECT lo_from_bytea(77, 'x'); CREATE SCHEMA zz; CREATE TABLE zz.t (n integer)")
        dump(server.url, backup)
        with psycopg.connect(server.url) as connection:
            # It hangs on what the backup drops without CASCADE.
            connection.execute("CREATE SCHEMA yy; CREATE VIEW yy.hangs AS SELECT n FROM zz.t")
            connection.execute("UPDATE sellers SET name = 'as it is now'")

    code, _, said = installation.run("restore", str(backup), "--yes")

    assert code == 2
    assert "the database refused" in said
    with EmbeddedPostgres(installation.data) as server, psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT name FROM sellers").fetchone() == ("as it is now",)
