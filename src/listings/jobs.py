"""``listings job``: look at jobs, follow them, retry and cancel them, one or many."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

import typer

from core.errors import ApiError
from listing_publication.v1 import admin_pb2, common_pb2, jobs_pb2
from listings.channel import Core, DemoKey, KeyFile, core_for_key, core_for_operator
from listings.documents import document, moment, word
from listings.numbers import number_option
from listings.operators import Yes, environment_word, name_environment
from listings.output import EXIT_REFUSED, AsJson, Output, UsageError
from listings.watching import job_table, show_outcome, watch_all, watch_to_end

commands = typer.Typer(help="Jobs: list, show, watch, retry, cancel, failures.", no_args_is_help=True)

_PAGE = 1_000
_MANY_SECONDS = 300.0

JobId = Annotated[str, typer.Argument(help="The job's UUID.")]
JobIds = Annotated[list[str] | None, typer.Argument(help="The jobs' UUIDs; none with a filter.")]
FromDate = Annotated[str | None, typer.Option("--from", help="YYYY-MM-DD, UTC, inclusive.")]
ToDate = Annotated[str | None, typer.Option("--to", help="YYYY-MM-DD, UTC, inclusive.")]
ErrorCode = Annotated[
    str | None,
    typer.Option("--error-code", help="Only jobs with an item that failed so, for example marketplace_busy."),
]
OfSeller = Annotated[int | None, number_option("--seller", help="Only this seller's jobs.", min=1)]
OfStatus = Annotated[str | None, typer.Option("--status", help="Only jobs of this status.")]
Every = Annotated[bool, typer.Option("--all", help="All jobs that can be, with no other filter.")]


@commands.command("list")
def list_jobs(
    *,
    status: OfStatus = None,
    from_date: FromDate = None,
    to_date: ToDate = None,
    limit: Annotated[int, number_option("--limit", help="At most so many.", min=1)] = 50,
    key_file: KeyFile = None,
    demo: DemoKey = None,
    as_json: AsJson = False,
) -> None:
    """List the seller's jobs of both environments, newest first.

    Example: listings job list --status failed --from 2026-11-01 --demo test
    """
    with Output(as_json) as output, core_for_key(key_file, demo) as core:
        request = jobs_pb2.ListJobsRequest(status=status, from_date=from_date, to_date=to_date)
        jobs: list[jobs_pb2.Job] = []
        while True:
            request.page_size = min(limit - len(jobs), _PAGE)
            page = core.call(core.jobs.ListJobs, request)
            jobs += page.jobs
            request.page_token = page.next_page_token
            if not page.next_page_token or len(jobs) >= limit:
                break
        output.document({"jobs": [document(job) for job in jobs], "total": page.total})
        if not as_json:
            output.out.print(job_table(jobs))
        output.say(f"{len(jobs):,} of {page.total:,}")


@commands.command("show")
def show_job(
    job_id: JobId,
    *,
    status: Annotated[
        str | None, typer.Option("--status", help="Only items of this status: success, failed, skipped, pending.")
    ] = None,
    limit: Annotated[int, number_option("--limit", help="At most so many items.", min=1)] = 20,
    key_file: KeyFile = None,
    demo: DemoKey = None,
    as_json: AsJson = False,
) -> None:
    """Show one job and its items, in request order.

    Example: listings job show 0198c2a4-… --status failed --demo test
    """
    with Output(as_json) as output, core_for_key(key_file, demo) as core:
        job, items, total = _items(core, job_id, status=status, limit=limit)
        output.document({"job": document(job), "items": [document(each) for each in items], "total": total})
        _show_job(output, job)
        output.say("")
        output.table(
            ["SKU", "STATUS", "LISTING", "PRICE", "CATEGORY", "BECAUSE"],
            [
                (
                    each.sku,
                    each.status,
                    each.listing_id,
                    each.price if each.HasField("price") else None,
                    each.category_id,
                    each.error.message if each.HasField("error") else None,
                )
                for each in items
            ],
            numbers=["PRICE"],
        )
        output.say(f"{len(items):,} of {total:,} items")


def _show_job(output: Output, job: jobs_pb2.Job) -> None:
    times: tuple[Literal["created_at", "scheduled_for", "started_at", "completed_at"], ...] = (
        "created_at",
        "scheduled_for",
        "started_at",
        "completed_at",
    )
    output.facts(
        [
            ("job", job.job_id),
            ("status", job.status),
            ("environment", environment_word(job.environment)),
            ("kind", job.kind),
            ("items", job.total_items),
            ("successful", job.successful),
            ("failed", job.failed),
            ("skipped", job.skipped),
            ("pending", job.pending),
            ("being searched for", job.reconciling or None),
            ("retries", job.retries or None),
            *((name.replace("_", " "), moment(getattr(job, name))) for name in times if job.HasField(name)),
            ("waiting for", job.waiting_reason),
            ("error", job.error_message),
        ]
    )


def _items(
    core: Core, job_id: str, *, status: str | None, limit: int | None
) -> tuple[jobs_pb2.Job, list[jobs_pb2.JobItem], int]:
    request = jobs_pb2.GetJobRequest(job_id=job_id, status=status)
    items: list[jobs_pb2.JobItem] = []
    while True:
        request.page_size = _PAGE if limit is None else min(limit - len(items), _PAGE)
        page = core.call(core.jobs.GetJob, request)
        items += page.items
        request.page_token = page.next_page_token
        if not page.next_page_token or (limit is not None and len(items) >= limit):
            return page.job, items, page.total


@commands.command("watch")
def watch_job(
    job_id: Annotated[str | None, typer.Argument(help="The job's UUID; none: all active jobs.")] = None,
    *,
    exit_status: Annotated[
        bool, typer.Option("--exit-status", help="End with 1 unless the job completed without a failed item.")
    ] = False,
    key_file: KeyFile = None,
    demo: DemoKey = None,
    as_json: AsJson = False,
) -> None:
    """Follow a job to its end, or all active jobs until interrupted.

    A broken connection is made anew and goes on after the last result seen.

    Examples:

        listings job watch 0198c2a4-… --demo test

        listings job watch --demo live
    """
    with Output(as_json) as output, core_for_key(key_file, demo) as core:
        if job_id is None:
            if as_json or exit_status:
                raise UsageError("--json and --exit-status need the id of one job")
            watch_all(output, core)
            return
        outcome = watch_to_end(output, core, job_id)
        output.document(outcome.document())
        show_outcome(output, outcome)
        if exit_status and not outcome.clean:
            raise typer.Exit(EXIT_REFUSED)


@commands.command("failures")
def failures(
    job_id: JobId,
    *,
    as_csv: Annotated[bool, typer.Option("--csv", help="As CSV that publish takes again.")] = False,
    key_file: KeyFile = None,
    demo: DemoKey = None,
    as_json: AsJson = False,
) -> None:
    """Show why items of a job failed.

    With --csv: one row for each failed item. Correct the products, then give the file to publish; only its columns sku
    and category_id are read.

    Example: listings job failures 0198c2a4-… --csv --demo test > failed.csv
    """
    with Output(as_json) as output, core_for_key(key_file, demo) as core:
        if as_csv and as_json:
            raise UsageError("--csv and --json exclude each other")
        _, items, total = _items(core, job_id, status="failed", limit=None)
        if as_csv:
            _write_csv(output, items)
            return
        output.document({"failures": [document(each) for each in items], "total": total})
        output.table(
            ["SKU", "RETRYABLE", "WHO", "CODE", "BECAUSE"],
            [(each.sku, each.retryable, _who(each), each.error.code, each.error.message) for each in items],
        )
        output.say(f"{total:,} failed")


def _who(item: jobs_pb2.JobItem) -> str | None:
    return word(common_pb2.Who.Name(item.error.who), "Who")


def _write_csv(output: Output, items: list[jobs_pb2.JobItem]) -> None:
    writer = csv.writer(output.out.file, lineterminator="\n")
    writer.writerow(["sku", "category_id", "retryable", "who", "code", "message", "causes"])
    for each in items:
        causes = " | ".join(f"{cause.code}: {cause.message}" for cause in each.error.causes)
        row = [each.sku, each.category_id, str(each.retryable).lower(), _who(each), each.error.code, each.error.message]
        writer.writerow([_inert(value) for value in [*row, causes]])


def _inert(value: str | None) -> str:
    """Text from outside must not become a formula when the file is opened in a spreadsheet."""
    text = value or ""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


@commands.command("retry")
def retry(
    job_ids: JobIds = None,
    *,
    status: OfStatus = None,
    from_date: FromDate = None,
    to_date: ToDate = None,
    error_code: ErrorCode = None,
    seller: OfSeller = None,
    every: Every = False,
    yes: Yes = False,
    key_file: KeyFile = None,
    demo: DemoKey = None,
    as_json: AsJson = False,
) -> None:
    """Send the failed items of finished jobs again, where that can help. Live: 1 credit each.

    By id with the key of the jobs' environment; by filter with the operator token (LISTINGS_OPERATOR_TOKEN), for any
    seller.

    Examples:

        listings job retry 0198c2a4-… --demo test

        listings job retry --error-code marketplace_unavailable --from 2026-11-01 --seller 1
    """
    filters = {
        "status": status,
        "from_date": from_date,
        "to_date": to_date,
        "error_code": error_code,
        "seller_id": seller,
    }
    with Output(as_json) as output:
        if _by_filter(job_ids, filters, every):
            _act_on_many(output, filters, retry=True, yes=yes)
            return
        with core_for_key(key_file, demo) as core:
            _confirm_live_retry(output, core, job_ids or [], yes=yes)
            _act_on_each(output, job_ids or [], lambda job_id: _retry(core, job_id))


@commands.command("cancel")
def cancel(
    job_ids: JobIds = None,
    *,
    status: OfStatus = None,
    from_date: FromDate = None,
    to_date: ToDate = None,
    error_code: ErrorCode = None,
    seller: OfSeller = None,
    every: Every = False,
    yes: Yes = False,
    key_file: KeyFile = None,
    demo: DemoKey = None,
    as_json: AsJson = False,
) -> None:
    """Cancel jobs that are not done. What is published stays; items on the wire finish.

    By id with a key of either environment; by filter with the operator token (LISTINGS_OPERATOR_TOKEN), for any seller.

    Examples:

        listings job cancel 0198c2a4-… --demo test

        listings job cancel --status scheduled --to 2026-11-30 --yes
    """
    filters = {
        "status": status,
        "from_date": from_date,
        "to_date": to_date,
        "error_code": error_code,
        "seller_id": seller,
    }
    with Output(as_json) as output:
        if _by_filter(job_ids, filters, every):
            _act_on_many(output, filters, retry=False, yes=yes)
            return
        with core_for_key(key_file, demo) as core:
            _act_on_each(output, job_ids or [], lambda job_id: _cancel(core, job_id))


def _by_filter(job_ids: list[str] | None, filters: dict[str, Any], every: bool) -> bool:
    filtered = every or any(value is not None for value in filters.values())
    if filtered and job_ids:
        raise UsageError("name jobs or give a filter, not both")
    if not filtered and not job_ids:
        raise UsageError("name at least one job, or give a filter or --all")
    return filtered


Acted = tuple[jobs_pb2.Job, int, str]


def _retry(core: Core, job_id: str) -> Acted:
    answer = core.call(core.jobs.RetryJob, jobs_pb2.RetryJobRequest(job_id=job_id))
    return answer.job, answer.retried, "sent again"


def _cancel(core: Core, job_id: str) -> Acted:
    answer = core.call(core.jobs.CancelJob, jobs_pb2.CancelJobRequest(job_id=job_id))
    finishing = f", {answer.in_flight:,} on the wire" if answer.in_flight else ""
    return answer.job, answer.cancelled_items, f"skipped{finishing}"


def _confirm_live_retry(output: Output, core: Core, job_ids: list[str], *, yes: bool) -> None:
    live = 0
    for job_id in job_ids:
        try:
            job = core.call(core.jobs.GetJob, jobs_pb2.GetJobRequest(job_id=job_id, page_size=1)).job
        except ApiError as error:
            # An unknown job is told with the others' results. Where nobody is asked, the right to retry is enough.
            if error.code == "E_JOB_NOT_FOUND" or (yes and error.code == "E_AUTH_FORBIDDEN_SCOPE"):
                continue
            raise
        if job.environment == common_pb2.ENVIRONMENT_LIVE:
            live += job.failed
    if live:
        name_environment(output, common_pb2.ENVIRONMENT_LIVE)
        output.confirm(f"Retry up to {live:,} failed items LIVE for as many credits?", yes=yes)


def _act_on_each(output: Output, job_ids: list[str], act: Callable[[str], Acted]) -> None:
    """One result per job; a refusal of one does not keep the others from being tried."""
    results: list[dict[str, Any]] = []
    refused: ApiError | None = None
    for job_id in job_ids:
        try:
            job, items, what = act(job_id)
        except ApiError as error:
            if len(job_ids) == 1:
                raise
            refused = error
            output.say(f"{job_id}: refused: {error.detail} ({error.code})", style="red")
            results.append({"job_id": job_id, "refused_code": error.code, "refused_detail": error.detail})
            continue
        output.say(f"{job_id}: {items:,} items {what}, now {job.status}")
        results.append({"job": document(job), "items": items})
    output.document(results[0] if len(job_ids) == 1 else {"results": results})
    if refused is not None:
        raise typer.Exit(EXIT_REFUSED)


def _act_on_many(output: Output, filters: dict[str, Any], *, retry: bool, yes: bool) -> None:
    action = admin_pb2.JOB_ACTION_RETRY if retry else admin_pb2.JOB_ACTION_CANCEL
    with core_for_operator() as core:
        request = admin_pb2.ActOnJobsRequest(action=action, **filters)
        request.validate_only = True
        found = core.call(core.admin.ActOnJobs, request, seconds=_MANY_SECONDS)
        count = len(found.results)
        if count:
            live = [each for each in found.results if each.job.environment == common_pb2.ENVIRONMENT_LIVE]
            if live and retry:
                name_environment(output, common_pb2.ENVIRONMENT_LIVE)
            items = sum(each.items for each in found.results)
            more = " or more" if found.more else ""
            output.confirm(
                f"{'Retry' if retry else 'Cancel'} {count:,}{more} jobs ({len(live):,} of them LIVE, {items:,} items)?",
                yes=yes,
            )
        request.validate_only = False
        results = list(_rounds(core, request)) if count else []
        output.document({"results": [document(each) for each in results]})
        output.table(
            ["SELLER", "JOB", "ENVIRONMENT", "ITEMS", "NOW", "REFUSED"],
            [
                (
                    str(each.seller_id),
                    each.job.job_id,
                    environment_word(each.job.environment),
                    each.items,
                    each.job.status,
                    each.refused_detail,
                )
                for each in results
            ],
            numbers=["SELLER", "ITEMS"],
        )
        output.say(f"{len(results):,} jobs, {sum(bool(each.refused_code) for each in results):,} refused")
        if any(each.refused_code for each in results):
            raise typer.Exit(EXIT_REFUSED)


def _rounds(core: Core, request: admin_pb2.ActOnJobsRequest) -> Iterator[admin_pb2.JobActionResult]:
    """Call until nothing more matches, each time after the last job of the time before: refused jobs match again."""
    while True:
        answer = core.call(core.admin.ActOnJobs, request, seconds=_MANY_SECONDS)
        yield from answer.results
        if not answer.more:
            return
        request.after_seller_id, request.after_job_id = answer.results[-1].seller_id, answer.results[-1].job.job_id
