"""``job list|show|watch|failures|retry|cancel``, with the core server played by the test."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import grpc
import pytest
from rich.console import Console

from core.errors import ApiError
from listing_publication.v1 import admin_pb2, common_pb2, jobs_pb2
from listings.watching import Watched, describe, picture
from tests.support.cli import CommandLine, command_line

JOB, OTHER = "01a21f82-15a4-77e3-9b85-0f0e3d3d4634", "01a21f82-15a4-77e3-9b85-0f0e3d3d4635"
Event = jobs_pb2.WatchJobResponse


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> CommandLine:
    return command_line(monkeypatch, capsys, tmp_path)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("listings.watching.FIRST_DELAY", 0.001)


def a_job(status: str = "processing", **changes: Any) -> jobs_pb2.Job:
    fields: dict[str, Any] = {
        "job_id": JOB,
        "status": status,
        "environment": common_pb2.ENVIRONMENT_TEST,
        "kind": "publication",
        "total_items": 4,
        "pending": 4,
    }
    return jobs_pb2.Job(**(fields | changes))


def an_item(sequence: int, *, failed: str | None = None) -> jobs_pb2.JobItem:
    item = jobs_pb2.JobItem(
        ordinal=sequence - 1, sku=f"AAAAAAAAA{sequence}", status="failed" if failed else "success", sequence=sequence
    )
    if failed:
        item.retryable = False
        item.error.CopyFrom(common_pb2.ItemError(code="price_missing", message=failed, who=common_pb2.WHO_SELLER))
    return item


def test_a_watch_survives_broken_streams_and_counts_each_result_once(cli: CommandLine) -> None:
    cli.start("job", "watch", JOB, "--json")
    stream = cli.take("JobService", "WatchJob")
    assert (stream.request.job_id, stream.request.after_sequence) == (JOB, 0)
    stream.send([Event(job=a_job()), Event(item=an_item(1)), Event(item=an_item(2, failed="It has no cost."))])
    stream.end(grpc.StatusCode.UNAVAILABLE)
    stream = cli.take("JobService", "WatchJob")
    assert stream.request.after_sequence == 2
    stream.end(grpc.StatusCode.UNAVAILABLE)  # before a single message
    stream = cli.take("JobService", "WatchJob")
    assert stream.request.after_sequence == 2
    stream.send(
        [Event(job=a_job()), Event(heartbeat=jobs_pb2.Heartbeat()), Event(item=an_item(3, failed="It has no cost."))]
    )
    stream.end()  # a stream at its greatest age: the job is not over
    stream = cli.take("JobService", "WatchJob")
    assert stream.request.after_sequence == 3
    ended = a_job("completed", pending=0, successful=2, failed=2, last_sequence=4)
    stream.send([Event(job=a_job()), Event(item=an_item(4)), Event(job=ended)])
    stream.end()
    result = cli.end()
    assert result.code == 0
    told = json.loads(result.out)
    assert told["job"]["status"] == "completed"
    assert told["failures"] == [{"message": "It has no cost.", "items": 2}]


def test_a_watch_that_is_piped_prints_plain_lines(cli: CommandLine) -> None:
    cli.start("job", "watch", JOB)
    stream = cli.take("JobService", "WatchJob")
    progress = jobs_pb2.Progress(
        status="processing", pending=2, successful=1, failed=1, items_per_second=12.5, eta_seconds=75
    )
    stream.send(
        [
            Event(job=a_job("queued", waiting_reason="waiting for a worker")),
            Event(item=an_item(1)),
            Event(item=an_item(2, failed="It has no cost.")),
            Event(progress=progress),
            Event(job=a_job("completed", pending=0, successful=3, failed=1)),
        ]
    )
    stream.end()
    result = cli.end()
    lines = result.out.splitlines()
    assert lines[0] == "queued 0/4  ok 0  failed 0  waiting: waiting for a worker"
    assert "completed 4/4  ok 3  failed 1" in lines
    assert any("It has no cost." in line for line in lines)
    assert "\x1b" not in result.out


@pytest.mark.parametrize(("failed", "code"), [(0, 0), (1, 1)])
def test_exit_status_is_told_on_demand(cli: CommandLine, failed: int, code: int) -> None:
    for extra, expected in ((["--exit-status"], code), ([], 0)):
        cli.start("job", "watch", JOB, "--json", *extra)
        stream = cli.take("JobService", "WatchJob")
        stream.send([Event(job=a_job("completed", pending=0, failed=failed, successful=4 - failed))])
        stream.end()
        assert cli.end().code == expected


def test_a_watch_ends_where_the_server_says_no(cli: CommandLine) -> None:
    cli.start("job", "watch", JOB)
    cli.take("JobService", "WatchJob").end_refused(ApiError("E_JOB_NOT_FOUND", "There is no such job."))
    result = cli.end()
    assert result.code == 1
    assert "There is no such job. (E_JOB_NOT_FOUND)" in result.err
    cli.start("job", "watch", JOB)
    stream = cli.take("JobService", "WatchJob")
    stream.send([Event(job=a_job())])
    stream.end_refused(ApiError("E_AUTH_INVALID_KEY", "The key is not valid."))
    result = cli.end()
    assert result.code == 1
    assert "E_AUTH_INVALID_KEY" in result.err


def test_a_server_that_is_not_there_is_told_at_once(cli: CommandLine) -> None:
    cli.start("job", "watch", JOB, "--json")
    cli.take("JobService", "WatchJob").end(grpc.StatusCode.UNAVAILABLE)
    result = cli.end()
    assert result.code == 1
    error = json.loads(result.out)["error"]
    assert error["code"] == "E_INTERNAL"
    assert "text from inside" not in result.out


def test_what_a_terminal_shows() -> None:
    watched = Watched(JOB)
    job = a_job(environment=common_pb2.ENVIRONMENT_LIVE)
    watched.take(Event(job=job))
    watched.take(Event(item=an_item(1, failed="It has no cost.")))
    watched.take(
        Event(
            progress=jobs_pb2.Progress(
                status="processing",
                pending=3,
                failed=1,
                items_per_second=2,
                eta_seconds=3700,
                waiting_reason="the account is rate-limited",
            )
        )
    )
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    console.print(picture(watched))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    for words in ("LIVE", "processing", "1/4", "2.0/s", "ETA 1:01:40", "It has no cost.", "rate-limited"):
        assert words in shown
    assert describe(watched).startswith("processing 1/4")


def test_watch_without_a_job_shows_all(cli: CommandLine) -> None:
    cli.start("job", "watch")
    stream = cli.take("JobService", "WatchJobs")
    stream.send(
        [jobs_pb2.WatchJobsResponse(job=a_job()), jobs_pb2.WatchJobsResponse(job=a_job("completed", pending=0))]
    )
    stream.end(grpc.StatusCode.UNAVAILABLE)
    stream = cli.take("JobService", "WatchJobs")
    stream.end_refused(ApiError("E_AUTH_INVALID_KEY", "The key is not valid."))
    result = cli.end()
    assert result.code == 1
    assert f"{JOB}  processing 0/4" in result.out
    assert f"{JOB}  completed 4/4" in result.out
    assert cli.run("job", "watch", "--json").code == 2


def test_list(cli: CommandLine) -> None:
    cli.start("job", "list", "--status", "failed", "--from", "2026-11-01", "--limit", "3", "--json")
    call = cli.take("JobService", "ListJobs")
    assert (call.request.status, call.request.from_date, call.request.page_size) == ("failed", "2026-11-01", 3)
    assert not call.request.HasField("to_date")
    call.answer(jobs_pb2.ListJobsResponse(jobs=[a_job("failed")], total=1))
    told = json.loads(cli.end().out)
    assert (told["total"], told["jobs"][0]["job_id"], told["jobs"][0]["environment"]) == (1, JOB, "test")
    cli.start("job", "list")
    cli.take("JobService", "ListJobs").answer(jobs_pb2.ListJobsResponse(jobs=[a_job("failed")], total=1))
    assert JOB in cli.end().out


def test_show(cli: CommandLine) -> None:
    cli.start("job", "show", JOB, "--status", "failed")
    call = cli.take("JobService", "GetJob")
    assert (call.request.status, call.request.page_size) == ("failed", 20)
    call.answer(
        jobs_pb2.GetJobResponse(
            job=a_job("failed", error_message="Nothing worked."), items=[an_item(1, failed="No.")], total=1
        )
    )
    result = cli.end()
    assert result.code == 0
    for words in ("Nothing worked.", "AAAAAAAAA1", "No.", "1 of 1 items"):
        assert words in result.out


def test_failures_as_csv_can_be_published_again(cli: CommandLine, tmp_path: Path) -> None:
    cli.start("job", "failures", JOB, "--csv")
    call = cli.take("JobService", "GetJob")
    assert (call.request.status, call.request.page_size) == ("failed", 1000)
    first = an_item(1, failed="=It, has\nno cost")
    first.category_id = "MCO1055"
    first.error.causes.add(code="item.price", message="too low")
    call.answer(jobs_pb2.GetJobResponse(job=a_job(), items=[first], total=2, next_page_token="more"))
    call = cli.take("JobService", "GetJob")
    assert call.request.page_token == "more"
    call.answer(jobs_pb2.GetJobResponse(job=a_job(), items=[an_item(2, failed="b")], total=2))
    out = cli.end().out
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["sku"], row["category_id"], row["who"]) for row in rows] == [
        ("AAAAAAAAA1", "MCO1055", "seller"),
        ("AAAAAAAAA2", "", "seller"),
    ]
    assert rows[0]["message"] == "'=It, has\nno cost"  # no formula for a spreadsheet
    assert rows[0]["causes"] == "item.price: too low"
    (tmp_path / "failed.csv").write_text(out)
    cli.start("publish", "failed.csv")
    cli.ping()
    call = cli.take("PublishingService", "CreateJob")
    assert [(item.sku, item.category_id) for item in call.request.items] == [
        ("AAAAAAAAA1", "MCO1055"),
        ("AAAAAAAAA2", ""),
    ]
    call.refuse(ApiError("E_PRODUCT_MAX_CONCURRENT_JOBS", "There are 6 active jobs.", retry_after=3))
    ended = cli.end()
    assert ended.code == 1
    assert "try again in 3 s" in ended.err


def test_retry_of_one_job(cli: CommandLine) -> None:
    cli.start("job", "retry", JOB, "--json")
    cli.take("JobService", "GetJob").answer(jobs_pb2.GetJobResponse(job=a_job("completed", failed=2)))
    cli.take("JobService", "RetryJob").answer(jobs_pb2.RetryJobResponse(job=a_job("queued"), retried=2))
    result = cli.end()
    assert result.code == 0
    assert json.loads(result.out)["items"] == 2


def test_a_live_retry_is_confirmed(cli: CommandLine) -> None:
    live = a_job("completed", failed=2, environment=common_pb2.ENVIRONMENT_LIVE)
    cli.start("job", "retry", JOB)
    cli.take("JobService", "GetJob").answer(jobs_pb2.GetJobResponse(job=live))
    result = cli.end()
    assert result.code == 2
    assert "2 failed items LIVE" in result.err


def test_a_retry_with_yes_needs_no_right_to_read(cli: CommandLine) -> None:
    cli.start("job", "retry", JOB, "--yes", "--json")
    cli.take("JobService", "GetJob").refuse(ApiError("E_AUTH_FORBIDDEN_SCOPE", "This key may not read."))
    cli.take("JobService", "RetryJob").answer(jobs_pb2.RetryJobResponse(job=a_job("queued"), retried=2))
    assert cli.end().code == 0


def test_a_retry_that_has_to_be_confirmed_needs_the_right_to_read(cli: CommandLine) -> None:
    cli.start("job", "retry", JOB)
    cli.take("JobService", "GetJob").refuse(ApiError("E_AUTH_FORBIDDEN_SCOPE", "This key may not read."))
    result = cli.end()
    assert result.code == 1
    assert "This key may not read." in result.err


def test_a_live_retry_names_its_environment_without_being_confirmed(cli: CommandLine) -> None:
    live = a_job("completed", failed=2, environment=common_pb2.ENVIRONMENT_LIVE)
    cli.start("job", "retry", JOB, "--yes")
    cli.take("JobService", "GetJob").answer(jobs_pb2.GetJobResponse(job=live))
    cli.take("JobService", "RetryJob").answer(jobs_pb2.RetryJobResponse(job=live, retried=2))
    result = cli.end()
    assert result.code == 0
    assert "LIVE" in result.err


def test_an_unknown_job_does_not_keep_the_others_from_being_retried(cli: CommandLine) -> None:
    cli.start("job", "retry", OTHER, JOB, "--json")
    cli.take("JobService", "GetJob").refuse(ApiError("E_JOB_NOT_FOUND", "There is no such job."))
    cli.take("JobService", "GetJob").answer(jobs_pb2.GetJobResponse(job=a_job("completed", failed=2)))
    cli.take("JobService", "RetryJob").refuse(ApiError("E_JOB_NOT_FOUND", "There is no such job."))
    cli.take("JobService", "RetryJob").answer(jobs_pb2.RetryJobResponse(job=a_job("queued"), retried=2))
    assert cli.end().code == 1


def test_one_refusal_does_not_keep_the_other_jobs(cli: CommandLine) -> None:
    cli.start("job", "cancel", JOB, OTHER, "--json")
    cli.take("JobService", "CancelJob").refuse(ApiError("E_JOB_ALREADY_TERMINAL", "The job is already failed."))
    call = cli.take("JobService", "CancelJob")
    assert call.request.job_id == OTHER
    call.answer(jobs_pb2.CancelJobResponse(job=a_job("cancelled"), cancelled_items=3, in_flight=1))
    result = cli.end()
    assert result.code == 1
    results = json.loads(result.out)["results"]
    assert results[0]["refused_code"] == "E_JOB_ALREADY_TERMINAL"
    assert results[1]["items"] == 3


def matching(count: int, *, start: int = 0, refused: str = "", live: bool = False) -> list[admin_pb2.JobActionResult]:
    environment = common_pb2.ENVIRONMENT_LIVE if live else common_pb2.ENVIRONMENT_TEST
    return [
        admin_pb2.JobActionResult(
            seller_id=7,
            job=a_job("failed", job_id=f"job {number}", environment=environment),
            items=2,
            refused_code=refused,
            refused_detail="No." if refused else "",
        )
        for number in range(start, start + count)
    ]


def test_acting_on_many_counts_first_and_calls_until_nothing_is_left(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LISTINGS_OPERATOR_TOKEN", "the-operators-token")
    cli.start("job", "retry", "--error-code", "marketplace_busy", "--seller", "7", "--from", "2026-11-01")
    call = cli.take("AdminService", "ActOnJobs")
    assert call.metadata["x-operator-token"] == "the-operators-token"
    assert "x-api-key" not in call.metadata
    assert call.request.validate_only
    assert (call.request.action, call.request.seller_id, call.request.error_code) == (
        admin_pb2.JOB_ACTION_RETRY,
        7,
        "marketplace_busy",
    )
    call.answer(admin_pb2.ActOnJobsResponse(results=matching(3, live=True), more=True))
    result = cli.end()
    assert result.code == 2
    assert "Retry 3 or more jobs (3 of them LIVE, 6 items)?" in result.err

    cli.start("job", "cancel", "--status", "queued", "--yes", "--json")
    cli.take("AdminService", "ActOnJobs").answer(admin_pb2.ActOnJobsResponse(results=matching(3), more=True))
    call = cli.take("AdminService", "ActOnJobs")
    assert not call.request.validate_only
    call.answer(admin_pb2.ActOnJobsResponse(results=matching(2), more=True))
    call = cli.take("AdminService", "ActOnJobs")
    assert (call.request.after_seller_id, call.request.after_job_id) == (7, "job 1")
    call.answer(admin_pb2.ActOnJobsResponse(results=matching(1, start=2, refused="E_JOB_ALREADY_TERMINAL")))
    result = cli.end()
    assert result.code == 1
    assert [each["refused_code"] for each in json.loads(result.out)["results"]] == ["", "", "E_JOB_ALREADY_TERMINAL"]


def test_acting_on_none(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LISTINGS_OPERATOR_TOKEN", "the-operators-token")
    cli.start("job", "cancel", "--all", "--json")
    cli.take("AdminService", "ActOnJobs").answer(admin_pb2.ActOnJobsResponse())
    result = cli.end()
    assert result.code == 0
    assert json.loads(result.out) == {"results": []}


@pytest.mark.parametrize("arguments", [[], [JOB, "--all"], ["--all"]])
def test_neither_or_both_of_names_and_filter_or_no_token(cli: CommandLine, arguments: list[str]) -> None:
    assert cli.run("job", "cancel", *arguments).code == 2
