"""Administration: sellers, keys, credits, accounts, tariffs, the catalogue. Works directly on the database."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from core import log
from core.app import Application
from core.catalog.importer import CatalogFileError, Finding, ImportReport, import_file
from core.domain.seller import Balance, KeyRecord, LedgerEntry, Seller, TaxCategory
from core.domain.states import Environment
from core.settings import Settings
from core.storage.connecting import AWAY
from core.storage.database import Database, DatabaseAway
from core.storage.migrate import MigrationError, check_schema
from core.use_cases import administration
from listings.installation import find_database_url, find_secret_key
from listings.numbers import SellerId, SellerOption, number_argument, number_option
from listings.output import EXIT_REFUSED, AsJson, Output, UsageError, decimal_text, timestamp

T = TypeVar("T")

seller_commands = typer.Typer(help="Sellers and how they publish.", no_args_is_help=True)
key_commands = typer.Typer(help="API keys.", no_args_is_help=True)
credit_commands = typer.Typer(help="Credits.", no_args_is_help=True)
tax_commands = typer.Typer(help="Tariff categories.", no_args_is_help=True)
catalog_commands = typer.Typer(help="Products.", no_args_is_help=True)

EnvironmentOption = Annotated[Environment, typer.Option("--environment", help="live or test.")]
Trm = Annotated[int | None, number_option("--trm", help="Pesos per US dollar.")]
Margin = Annotated[str | None, typer.Option("--margin", help="Margin on cost, percent.")]
PriceStep = Annotated[int | None, number_option("--price-step", help="Prices are rounded up to a multiple of this.")]
Warranty = Annotated[str | None, typer.Option("--warranty-time", help="For example '90 días'.")]
Manufacturing = Annotated[int | None, number_option("--manufacturing-time-days", help="Days until it can be sent.")]
Stock = Annotated[int | None, number_option("--stock-quantity", help="Stock each listing is published with.")]
ListingType = Annotated[str | None, typer.Option("--listing-type", help="For example gold_special.")]


def on_database(work: Callable[[Database], Awaitable[T]]) -> T:
    """Run administration on the database that the settings name.

    Raises:
        UsageError: there is no database, it cannot be reached, or its schema is too old.
        ApiError: what ``work`` raises.
    """
    settings, url = _open_installation()
    database = Database(
        url, name="administration", max_size=2, statement_timeout=120, prepare=settings.database_prepare
    )
    return asyncio.run(_run(database, lambda: work(database)))


def on_application(work: Callable[[Application], Awaitable[T]]) -> T:
    """As ``on_database``, for what also needs the secret key.

    Raises:
        UsageError: also when there is no secret key.
    """
    settings, url = _open_installation()
    application = Application(settings, name="administration", database_url=url, secret_key=find_secret_key(settings))
    return asyncio.run(_run(application.database, lambda: work(application)))


def _open_installation() -> tuple[Settings, str]:
    settings = Settings.load()
    log.configure(log_format=settings.log_format, level="WARNING")
    url = find_database_url(settings)
    try:
        check_schema(url)
    except MigrationError as error:
        raise UsageError(str(error)) from None
    return settings, url


async def _run(database: Database, work: Callable[[], Awaitable[T]]) -> T:
    try:
        await database.open(10)
    except DatabaseAway:
        raise UsageError(AWAY) from None
    try:
        return await work()
    finally:
        await database.close()


def _settings(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def seller_document(seller: Seller) -> dict[str, Any]:
    """A seller as JSON."""
    settings = asdict(seller.settings) | {"margin_percent": decimal_text(seller.settings.margin_percent)}
    return {
        "seller_id": seller.seller_id,
        "name": seller.name,
        "site_id": seller.site_id,
        "currency": seller.currency,
        **settings,
        "created_at": timestamp(seller.created_at),
        "accounts": [{**asdict(account), "environment": account.environment.value} for account in seller.accounts],
    }


def _show_seller(output: Output, seller: Seller) -> None:
    output.document(seller_document(seller))
    facts = seller_document(seller)
    accounts = facts.pop("accounts")
    output.facts((name, str(value)) for name, value in facts.items())
    for account in accounts:
        nickname = f" ({account['nickname']})" if account["nickname"] else ""
        output.facts(
            [(f"{account['environment']} account", f"{account['marketplace_user_id']}{nickname}, {account['status']}")]
        )


@seller_commands.command("add")
def add_seller(
    *,
    name: Annotated[str, typer.Option("--name", help="A name for people.")],
    credits_: Annotated[int, number_option("--credits", help="Credits to begin with.")] = 0,
    trm: Trm = None,
    margin: Margin = None,
    site: Annotated[str, typer.Option("--site", help="The marketplace's site.")] = "MCO",
    currency: Annotated[str, typer.Option("--currency", help="ISO 4217.")] = "COP",
    price_step: PriceStep = None,
    warranty_time: Warranty = None,
    manufacturing_time_days: Manufacturing = None,
    stock_quantity: Stock = None,
    listing_type: ListingType = None,
    as_json: AsJson = False,
) -> None:
    """Add a seller, with tariff category 0 (General, 0 %).

    Example: listings seller add --name "Tienda Norte" --credits 500 --trm 4100 --margin 25
    """
    settings = _settings(
        trm=trm,
        margin_percent=margin,
        price_step=price_step,
        warranty_time=warranty_time,
        manufacturing_time_days=manufacturing_time_days,
        stock_quantity=stock_quantity,
        listing_type_id=listing_type,
    )
    with Output(as_json) as output:
        seller = on_database(
            lambda database: administration.create_seller(
                database, name=name, first_credits=credits_, site_id=site, currency=currency, settings=settings
            )
        )
        _show_seller(output, seller)


@seller_commands.command("list")
def list_sellers(as_json: AsJson = False) -> None:
    """List all sellers, by id.

    Example: listings seller list
    """
    with Output(as_json) as output:
        sellers = on_database(administration.list_sellers)
        output.document({"sellers": [seller_document(seller) for seller in sellers]})
        output.table(
            ["SELLER", "NAME", "SITE", "TRM", "MARGIN %", "LIVE ACCOUNT", "TEST ACCOUNT"],
            [
                (
                    str(seller.seller_id),
                    seller.name,
                    seller.site_id,
                    seller.settings.trm,
                    seller.settings.margin_percent,
                    _account_status(seller, Environment.LIVE),
                    _account_status(seller, Environment.TEST),
                )
                for seller in sellers
            ],
            numbers=["SELLER", "TRM", "MARGIN %"],
        )


def _account_status(seller: Seller, environment: Environment) -> str:
    return next((each.status for each in seller.accounts if each.environment is environment), "-")


@seller_commands.command("show")
def show_seller(seller_id: SellerId, as_json: AsJson = False) -> None:
    """Show one seller with its settings and accounts.

    Example: listings seller show 1
    """
    with Output(as_json) as output:
        _show_seller(output, on_database(lambda database: administration.get_seller(database, seller_id)))


@seller_commands.command("update")
def update_seller(
    seller_id: SellerId,
    *,
    trm: Trm = None,
    margin: Margin = None,
    price_step: PriceStep = None,
    warranty_time: Warranty = None,
    manufacturing_time_days: Manufacturing = None,
    stock_quantity: Stock = None,
    listing_type: ListingType = None,
    as_json: AsJson = False,
) -> None:
    """Change a seller's settings. Jobs already accepted keep theirs.

    Example: listings seller update 1 --trm 4150 --price-step 500
    """
    settings = _settings(
        trm=trm,
        margin_percent=margin,
        price_step=price_step,
        warranty_time=warranty_time,
        manufacturing_time_days=manufacturing_time_days,
        stock_quantity=stock_quantity,
        listing_type_id=listing_type,
    )
    with Output(as_json) as output:
        if not settings:
            raise UsageError("name at least one setting to change (see --help)")
        _show_seller(output, on_database(lambda database: administration.update_seller(database, seller_id, settings)))


def key_document(key: KeyRecord) -> dict[str, Any]:
    """A key as JSON, without its secret."""
    document: dict[str, Any] = {
        "key_id": key.key_id,
        "seller_id": key.seller_id,
        "environment": key.environment.value,
        "scopes": list(key.scopes),
        "last_four": key.last_four,
        "created_at": timestamp(key.created_at),
    }
    for name, moment in (("expires_at", key.expires_at), ("revoked_at", key.revoked_at)):
        if moment is not None:
            document[name] = timestamp(moment)
    return document


@key_commands.command("create")
def create_key(
    seller: SellerOption,
    environment: EnvironmentOption,
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", help="products:write, products:read or account:read; once for each."),
    ] = None,
    expires_at: Annotated[
        str | None, typer.Option("--expires-at", help="RFC 3339, for example 2027-01-31T00:00:00Z.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make an API key. Its secret is printed this once and kept nowhere.

    Example: listings key create --seller 1 --environment test --scope products:write --scope products:read
    """
    with Output(as_json) as output:
        moment = None if expires_at is None else _moment("--expires-at", expires_at)
        key, secret = on_database(
            lambda database: administration.create_key(
                database, seller, environment=environment, scopes=scope or [], expires_at=moment
            )
        )
        output.document(key_document(key) | {"secret": secret})
        output.facts(
            [
                ("key", key.key_id),
                ("secret", secret),
                ("environment", key.environment.value),
                ("scopes", key.scopes),
                ("expires at", key.expires_at),
            ]
        )
        if not as_json:
            output.warn("Keep the secret now: it is not shown again.")


def _moment(name: str, text: str) -> datetime:
    rule = f"{name} must be a time with an offset, for example 2027-01-31T00:00:00Z"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(rule) from None
    if moment.tzinfo is None:
        raise UsageError(rule)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise UsageError(rule) from None


@key_commands.command("list")
def list_keys(seller: SellerOption, as_json: AsJson = False) -> None:
    """List a seller's keys, newest first, without secrets.

    Example: listings key list --seller 1
    """
    with Output(as_json) as output:
        keys = on_database(lambda database: administration.list_keys(database, seller))
        output.document({"keys": [key_document(key) for key in keys]})
        output.table(
            ["KEY", "ENVIRONMENT", "SCOPES", "ENDS WITH", "CREATED", "EXPIRES", "REVOKED"],
            [
                (
                    key.key_id,
                    key.environment.value,
                    key.scopes,
                    key.last_four,
                    key.created_at,
                    key.expires_at,
                    key.revoked_at,
                )
                for key in keys
            ],
        )


@key_commands.command("revoke")
def revoke_key(
    key_id: Annotated[str, typer.Argument(help="The key's public id (key_…), not its secret.")],
    as_json: AsJson = False,
) -> None:
    """Revoke a key, everywhere within a second.

    Example: listings key revoke key_3vJx…
    """
    with Output(as_json) as output:
        key = on_database(lambda database: administration.revoke_key(database, key_id))
        output.document(key_document(key))
        output.say(f"{key.key_id} is revoked.")


def _balance_document(balance: Balance) -> dict[str, Any]:
    return asdict(balance)


@credit_commands.command("grant")
def grant_credits(
    amount: Annotated[int, number_argument(help="How many.", min=1)], seller: SellerOption, as_json: AsJson = False
) -> None:
    """Add credits.

    Example: listings credits grant --seller 1 500
    """
    with Output(as_json) as output:
        balance = on_database(lambda database: administration.grant_credits(database, seller, amount))
        output.document(_balance_document(balance))
        output.facts(asdict(balance).items())


def _entry_document(entry: LedgerEntry) -> dict[str, Any]:
    return asdict(entry) | {"created_at": timestamp(entry.created_at)}


@credit_commands.command("show")
def show_credits(seller: SellerOption, as_json: AsJson = False) -> None:
    """Show a seller's balance and latest ledger entries.

    Example: listings credits show --seller 1
    """
    with Output(as_json) as output:
        balance, entries = on_database(lambda database: administration.get_credits(database, seller))
        output.document(_balance_document(balance) | {"latest_entries": [_entry_document(each) for each in entries]})
        output.facts(asdict(balance).items())
        if entries:
            output.say("")
            output.table(
                ["ENTRY", "KIND", "AMOUNT", "JOB", "AT"],
                [(each.entry_number, each.kind, each.amount, each.job_id, each.created_at) for each in entries],
                numbers=["ENTRY", "AMOUNT"],
            )


def connect_account(
    *,
    seller: SellerOption,
    environment: EnvironmentOption,
    marketplace_user: Annotated[int, number_option("--marketplace-user", help="The marketplace's user id.", min=1)],
    access_token: Annotated[
        str, typer.Option("--access-token", help="APP_USR-…; - reads it from standard input (not seen by others).")
    ],
    refresh_token: Annotated[
        str | None,
        typer.Option("--refresh-token", help="TG-…; - reads it from standard input, after the access token."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Connect a marketplace account to a seller, or connect it again. Tokens are kept encrypted.

    Example: listings account connect --seller 1 --environment test --marketplace-user 120506781 --access-token -
    """
    with Output(as_json) as output:
        access, refresh = _from_input(access_token), _from_input(refresh_token)
        if access is None:
            raise UsageError("--access-token must not be empty")
        state = on_application(
            lambda application: administration.connect_account(
                application.database,
                application.cipher,
                seller,
                environment,
                marketplace_user_id=marketplace_user,
                access_token=access,
                refresh_token=refresh,
            )
        )
        output.document(asdict(state) | {"seller_id": seller, "environment": state.environment.value})
        output.say(f"Seller {seller}: {environment.value} account {state.marketplace_user_id} is {state.status}.")


def _from_input(token: str | None) -> str | None:
    """The token, or for ``-`` the next line of standard input: other users of a machine can read arguments."""
    return sys.stdin.readline().strip() if token == "-" else token  # noqa: S105 - a dash is no secret


def disconnect_account(seller: SellerOption, environment: EnvironmentOption, as_json: AsJson = False) -> None:
    """Forget a marketplace account's tokens.

    Example: listings account disconnect --seller 1 --environment test
    """
    with Output(as_json) as output:
        state = on_database(lambda database: administration.disconnect_account(database, seller, environment))
        output.document(asdict(state) | {"seller_id": seller, "environment": state.environment.value})
        output.say(f"Seller {seller}: {environment.value} account {state.marketplace_user_id} is {state.status}.")


def reencrypt_accounts(as_json: AsJson = False) -> None:
    """Encrypt all marketplace tokens with the first key of LISTINGS_SECRET_KEY: the others can be dropped afterwards.

    Example: LISTINGS_SECRET_KEY=NEW,OLD listings account reencrypt
    """
    with Output(as_json) as output:
        done, unreadable = on_application(
            lambda application: administration.reencrypt_tokens(application.database, application.cipher)
        )
        output.say(f"{done} accounts are encrypted with the first key.")
        if unreadable:
            raise UsageError(f"{unreadable} accounts cannot be read with any of the keys of LISTINGS_SECRET_KEY")
        output.document({"accounts": done, "unreadable": unreadable})


def _show_tariffs(output: Output, tariffs: list[TaxCategory]) -> None:
    output.document(
        {
            "tax_categories": [
                {"index": each.index, "name": each.name, "rate_percent": decimal_text(each.rate_percent)}
                for each in tariffs
            ]
        }
    )
    output.table(
        ["INDEX", "NAME", "RATE %"],
        [(each.index, each.name, each.rate_percent) for each in tariffs],
        numbers=["INDEX", "RATE %"],
    )


@tax_commands.command("set")
def set_tax_category(
    seller: SellerOption,
    index: Annotated[int, number_option("--index", help="What tax_category_id takes; without holes.", min=0)],
    name: Annotated[str, typer.Option("--name", help="The seller's name for it.")],
    rate: Annotated[str, typer.Option("--rate", help="Percent, for example 5 or 12.5.")],
    as_json: AsJson = False,
) -> None:
    """Set one tariff category, and list them all.

    Example: listings tax-category set --seller 1 --index 1 --name Electrónica --rate 5
    """
    with Output(as_json) as output:
        tariffs = on_database(
            lambda database: administration.set_tax_category(
                database, seller, index=index, name=name, rate_percent=rate
            )
        )
        _show_tariffs(output, tariffs)


@tax_commands.command("list")
def list_tax_categories(seller: SellerOption, as_json: AsJson = False) -> None:
    """List a seller's tariff categories, by index.

    Example: listings tax-category list --seller 1
    """
    with Output(as_json) as output:
        _show_tariffs(output, on_database(lambda database: administration.list_tax_categories(database, seller)))


_SHOWN_FINDINGS = 20


@catalog_commands.command("import")
def import_catalog(
    file: Annotated[Path, typer.Argument(help="CSV with a header row, or JSON Lines; UTF-8; - is standard input.")],
    strict: Annotated[bool, typer.Option("--strict", help="Take nothing when one row is refused.")] = False,
    as_json: AsJson = False,
) -> None:
    """Take products into the catalogue: new SKUs are added, known ones changed.

    Columns: sku,title,category,cost_usd,image_url and optionally brand,model,gtin,weight_grams,description, in any
    order; more images in image_url separated by |. Rows that break a rule are named and left out. Of rows with the
    same SKU the last one counts. Ends with 0 when rows were taken, even if others were refused; with 1 when all rows
    were refused, when --strict refused the file for one of them, and when the file is no catalogue; with 2 when it
    cannot be read.

    Examples:

        listings catalog import products.csv

        zcat products.csv.gz | listings catalog import - --strict
    """
    with Output(as_json) as output:
        try:
            report = on_database(lambda database: import_file(database, file, strict=strict))
        except CatalogFileError as error:
            output.document({"error": {"code": "E_CATALOG_FILE", "detail": str(error)}})
            if not as_json:
                output.warn(f"refused: {file}: {error}", style="red")
            raise typer.Exit(EXIT_REFUSED) from None
        except OSError as error:
            raise UsageError(f"{file} cannot be read ({error.strerror})") from None
        _show_report(output, report)
        if report.strict_refusal or (report.refused and report.refused == report.read):
            raise typer.Exit(EXIT_REFUSED)


def _show_report(output: Output, report: ImportReport) -> None:
    output.document(asdict(report))
    if output.as_json:
        return
    output.facts(
        (name, str(getattr(report, name)))
        for name in ("read", "inserted", "changed", "unchanged", "repeated", "refused")
    )
    _show_findings(output, report.refusals, style="red")
    _show_findings(output, report.notes, style="yellow")
    if report.strict_refusal:
        output.warn("Nothing was imported: --strict.", style="red")


def _show_findings(output: Output, findings: list[Finding], *, style: str) -> None:
    for each in findings[:_SHOWN_FINDINGS]:
        place = f"line {each.line}" + (f", {each.column}" if each.column else "")
        output.warn(f"{place}: {each.rule}", style=style)
    if len(findings) > _SHOWN_FINDINGS:
        output.warn(f"… and {len(findings) - _SHOWN_FINDINGS} more (--json lists them)", style=style)
