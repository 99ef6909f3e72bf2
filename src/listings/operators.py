"""Operators' commands over gRPC that are not about one job: publish, promote, test products, the account, ping."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from google.protobuf.message import Message

from core.errors import ApiError
from listing_publication.v1 import account_pb2, common_pb2, promotion_pb2, publishing_pb2
from listings.channel import Core, DemoKey, KeyFile, core_for_key
from listings.documents import document, moment
from listings.numbers import number_option
from listings.output import AsJson, Output, UsageError
from listings.publish_file import AskedFor, at_lines, read_asked_for
from listings.watching import show_outcome, watch_to_end

ACCEPTED_BY_CONTENT = uuid.UUID("5f0c6a5e-6f0e-5d3b-9c59-8a1f4f4f2d0e")
"""Namespace of the idempotency keys that are made from what a request says."""
_SHOWN_PLAN = 50
_PAGE = 1_000

ListingType = Annotated[str | None, typer.Option("--listing-type", help="Instead of the seller's own.")]
TaxCategory = Annotated[int | None, number_option("--tax-category", help="Index of a tariff category; default 0.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, show prices and cost, write nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before something that costs credits.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Follow the job to its end.")]
Again = Annotated[bool, typer.Option("--again", help="Make a new job even if the same was accepted within 24 hours.")]
IdempotencyKey = Annotated[
    str | None, typer.Option("--idempotency-key", help="A UUID, instead of the one made from the content.")
]


def environment_word(environment: int) -> str:
    """``LIVE`` or ``TEST``."""
    return "LIVE" if environment == common_pb2.ENVIRONMENT_LIVE else "TEST"


def name_environment(output: Output, environment: int) -> None:
    """Say in colour and word where this acts."""
    if environment == common_pb2.ENVIRONMENT_LIVE:
        output.warn(" LIVE  the seller's real account; publishing costs credits ", style="bold white on red")
    elif not output.as_json:
        output.warn(" TEST  the seller's test account; free ", style="bold black on green")


def _idempotency_key(given: str | None, again: bool, content: Any) -> str:
    if given is not None and again:
        raise UsageError("--again and --idempotency-key exclude each other")
    if given is not None:
        return given
    if again:
        return str(uuid.uuid4())
    return str(uuid.uuid5(ACCEPTED_BY_CONTENT, json.dumps(content, sort_keys=True, separators=(",", ":"))))


def publish(
    file: Annotated[
        Path, typer.Argument(help="CSV with a sku column, JSON Lines, or SKUs one a line; - is standard input.")
    ],
    *,
    listing_type: ListingType = None,
    tax_category: TaxCategory = None,
    schedule: Annotated[
        str | None, typer.Option("--schedule", help="YYYY-MM-DDTHH:MM in UTC, 5 minutes to 30 days ahead.")
    ] = None,
    dry_run: DryRun = False,
    watch: Watch = False,
    yes: Yes = False,
    again: Again = False,
    idempotency_key: IdempotencyKey = None,
    key_file: KeyFile = None,
    demo: DemoKey = None,
    as_json: AsJson = False,
) -> None:
    """Publish the products of a file in one job of at most 10,000.

    The key decides where to: a test key publishes to the test account, free of charge. The same file with the same
    options is accepted once in 24 hours; a second call shows the first job.

    Examples:

        listings publish products.csv --demo test --watch

        listings publish products.csv --dry-run

        cut -d, -f1 some.csv | listings publish - --yes --json
    """
    with Output(as_json) as output:
        asked = read_asked_for(file)
        content = [
            "publish",
            [[each.sku, each.category_id, each.auto_categorize] for each in asked],
            listing_type,
            tax_category,
            schedule,
        ]
        key = _idempotency_key(idempotency_key, again, content)
        with core_for_key(key_file, demo) as core:
            request = publishing_pb2.CreateJobRequest(
                items=[each.item() for each in asked],
                listing_type_id=listing_type,
                tax_category_id=tax_category,
                scheduled_for=schedule,
                idempotency_key=key,
            )
            _publish(output, core, request, asked, dry_run=dry_run, watch=watch, yes=yes)


def _publish(
    output: Output,
    core: Core,
    request: publishing_pb2.CreateJobRequest,
    asked: list[AskedFor],
    *,
    dry_run: bool,
    watch: bool,
    yes: bool,
) -> None:
    environment = _environment(core)
    name_environment(output, environment)
    try:
        if dry_run or (environment == common_pb2.ENVIRONMENT_LIVE and not yes):
            rehearsal = publishing_pb2.CreateJobRequest()
            rehearsal.CopyFrom(request)
            rehearsal.validate_only = True
            rehearsal.ClearField("idempotency_key")
            planned = core.call(core.publishing.CreateJob, rehearsal)
            if dry_run:
                _show_plan(output, planned, planned.plan)
                return
            output.confirm(f"Publish {planned.accepted:,} products LIVE for {planned.credits_held:,} credits?", yes=yes)
        answer = core.call(core.publishing.CreateJob, request)
    except ApiError as error:
        raise at_lines(error, asked) from None
    _accepted(output, core, answer, taken=answer.accepted, watch=watch)


def promote(
    skus: Annotated[list[str] | None, typer.Argument(help="SKUs; none: the 1,000 oldest candidates.")] = None,
    *,
    from_file: Annotated[
        Path | None, typer.Option("--file", help="SKUs from a file, in any form that publish takes.")
    ] = None,
    listing_type: ListingType = None,
    tax_category: TaxCategory = None,
    dry_run: DryRun = False,
    watch: Watch = False,
    yes: Yes = False,
    again: Again = False,
    idempotency_key: IdempotencyKey = None,
    key_file: KeyFile = None,
    demo: DemoKey = None,
    as_json: AsJson = False,
) -> None:
    """Publish test products to the real account, with the category and price of their test run. Costs 1 credit each.

    Named SKUs are accepted once in 24 hours; without names every call takes the next candidates.

    Examples:

        listings promote --demo live --dry-run

        listings promote B014TMV5YE B07XSCCZYG --yes --watch
    """
    with Output(as_json) as output:
        chosen = list(skus or [])
        if from_file is not None:
            chosen += [each.sku for each in read_asked_for(from_file)]
        request = promotion_pb2.PromoteTestProductsRequest(listing_type_id=listing_type, tax_category_id=tax_category)
        if chosen:
            request.sku_list.skus.extend(chosen)
            content = ["promote", chosen, listing_type, tax_category]
            request.idempotency_key = _idempotency_key(idempotency_key, again, content)
        elif idempotency_key is not None:
            # "The next candidates" is another request each time: content says nothing about it.
            request.idempotency_key = idempotency_key
        with core_for_key(key_file, demo) as core:
            _promote(output, core, request, dry_run=dry_run, watch=watch, yes=yes)


def _promote(
    output: Output,
    core: Core,
    request: promotion_pb2.PromoteTestProductsRequest,
    *,
    dry_run: bool,
    watch: bool,
    yes: bool,
) -> None:
    environment = _environment(core)
    if environment != common_pb2.ENVIRONMENT_LIVE:
        # Before the environment is named: nothing happens on the test account either.
        raise ApiError("E_PROMOTE_REQUIRES_LIVE_KEY", "Promotion publishes to the real account: use a live key.")
    name_environment(output, environment)
    if dry_run or not yes:
        rehearsal = promotion_pb2.PromoteTestProductsRequest()
        rehearsal.CopyFrom(request)
        rehearsal.validate_only = True
        rehearsal.ClearField("idempotency_key")
        planned = core.call(core.promotion.PromoteTestProducts, rehearsal)
        if dry_run:
            _show_plan(output, planned, planned.plan)
            return
        output.confirm(f"Promote {planned.promoted:,} products LIVE for {planned.credits_held:,} credits?", yes=yes)
    answer = core.call(core.promotion.PromoteTestProducts, request)
    _accepted(output, core, answer, taken=answer.promoted, watch=watch)
    if answer.HasField("remaining") and answer.remaining:
        output.say(f"{answer.remaining:,} more candidates are left: promote again.")


def _accepted(
    output: Output,
    core: Core,
    answer: publishing_pb2.CreateJobResponse | promotion_pb2.PromoteTestProductsResponse,
    *,
    taken: int,
    watch: bool,
) -> None:
    told = document(answer)
    told.pop("plan")
    again = " (accepted before; this is the same job)" if answer.replayed else ""
    output.say(f"job {answer.job_id}: {taken:,} accepted, {answer.rejected:,} not taken{again}")
    for each in answer.rejections[:_SHOWN_PLAN]:
        output.warn(f"  {each.index + 1}. {each.sku}: {each.detail}")
    if not watch:
        output.document(told)
        return
    outcome = watch_to_end(output, core, answer.job_id)
    output.document(told | outcome.document())
    show_outcome(output, outcome)


def _show_plan(output: Output, planned: Message, plan: Iterable[publishing_pb2.PlannedItem]) -> None:
    output.document(document(planned))
    if output.as_json:
        return
    items = list(plan)
    rows = [
        (
            each.sku,
            each.category_id or "asked at publication",
            each.price if each.HasField("price") else None,
            each.problem.message if each.HasField("problem") else None,
        )
        for each in items
    ]
    output.table(["SKU", "CATEGORY", "PRICE", "PROBLEM"], rows[:_SHOWN_PLAN], numbers=["PRICE"])
    if len(rows) > _SHOWN_PLAN:
        output.say(f"… and {len(rows) - _SHOWN_PLAN:,} more (--json lists them)")
    problems = Counter(each.problem.message for each in items if each.HasField("problem"))
    prices = [each.price for each in items if each.HasField("price")]
    output.say("")
    output.facts(
        [
            ("products", len(items)),
            ("would publish", len(items) - sum(problems.values())),
            ("would fail", sum(problems.values())),
            ("lowest price", min(prices, default=None)),
            ("highest price", max(prices, default=None)),
            ("credits", str(getattr(planned, "credits_held", 0))),
        ]
    )
    if problems:
        output.table(["FAIL", "BECAUSE"], [(count, text) for text, count in problems.most_common()], numbers=["FAIL"])
    output.say("Nothing was written.")


def _environment(core: Core) -> int:
    return core.call(core.account.Ping, account_pb2.PingRequest()).environment


def test_products(
    *,
    pending: Annotated[
        bool | None, typer.Option("--pending/--promoted", help="Only those not yet, or already, published live.")
    ] = None,
    status_meli: Annotated[str | None, typer.Option("--status-meli", help="For example active or paused.")] = None,
    app_status: Annotated[int | None, number_option("--app-status", help="1 active, 0 paused or deleted.")] = None,
    sku: Annotated[str | None, typer.Option("--sku", help="Only this SKU.")] = None,
    limit: Annotated[int, number_option("--limit", help="At most so many.", min=1)] = 50,
    key_file: KeyFile = None,
    demo: DemoKey = None,
    as_json: AsJson = False,
) -> None:
    """List what was published with test keys, newest first.

    Example: listings test-products --pending --limit 200 --demo test
    """
    with Output(as_json) as output, core_for_key(key_file, demo) as core:
        request = promotion_pb2.ListTestProductsRequest(
            already_published=None if pending is None else not pending,
            status_meli=status_meli,
            app_status=app_status,
            sku=sku,
        )
        products: list[promotion_pb2.TestProduct] = []
        while True:
            request.page_size = min(limit - len(products), _PAGE)
            page = core.call(core.promotion.ListTestProducts, request)
            products += page.products
            request.page_token = page.next_page_token
            if not page.next_page_token or len(products) >= limit:
                break
        output.document({"products": [document(each) for each in products], "total": page.total})
        output.table(
            ["SKU", "LISTING", "PRICE", "CATEGORY", "STATUS", "LIVE", "PUBLISHED", "TITLE"],
            [
                (
                    each.sku,
                    each.listing_id_test,
                    each.price if each.HasField("price") else None,
                    each.category_name or each.category_id,
                    each.status_meli,
                    each.published_to_live,
                    moment(each.test_published_at),
                    each.title,
                )
                for each in products
            ],
            numbers=["PRICE"],
        )
        output.say(f"{len(products):,} of {page.total:,}")


def show_account(output: Output, core: Core) -> None:
    """Credits and settings of the key's seller."""
    account = core.call(core.account.GetAccount, account_pb2.GetAccountRequest())
    output.document(document(account))
    credits_, publishing = account.credits, account.publishing_config
    output.facts(
        [
            ("seller", str(account.seller_id)),
            ("site, currency", f"{account.site_id}, {account.currency}"),
            ("account connected", account.ml_connected),
            ("credits available", f"{credits_.available:,} of {credits_.total:,}"),
            ("used live", credits_.used_live),
            ("published on test", credits_.used_test),
            ("trm", publishing.trm),
            ("margin %", publishing.margin_percent),
            ("price step", publishing.price_step),
            ("listing type", publishing.listing_type_id),
            ("stock", publishing.stock_quantity),
            ("warranty", publishing.warranty_time),
            ("manufacturing days", publishing.manufacturing_time_days),
        ]
    )


def ping(key_file: KeyFile = None, demo: DemoKey = None, as_json: AsJson = False) -> None:
    """Tell whether the key works, and what it is.

    Example: listings ping --key-file test.key
    """
    with Output(as_json) as output, core_for_key(key_file, demo) as core:
        answer = core.call(core.account.Ping, account_pb2.PingRequest())
        output.document({"status": "ok"} | document(answer))
        name_environment(output, answer.environment)
        output.facts(
            [
                ("seller", str(answer.seller_id)),
                ("key", answer.key_id),
                ("environment", environment_word(answer.environment)),
                ("scopes", list(answer.scopes)),
                ("expires at", moment(answer.expires_at) if answer.HasField("expires_at") else None),
            ]
        )
