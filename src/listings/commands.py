"""Puts administration and operators' commands into the command line."""

from __future__ import annotations

import typer

from listings import administration, backup, jobs, operators
from listings.channel import DemoKey, KeyFile, core_for_key
from listings.output import AsJson, Output

_ADMINISTRATION = "Administration (on the database)"
_OPERATORS = "Operators (with a key, over gRPC)"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for name, group in (
        ("seller", administration.seller_commands),
        ("key", administration.key_commands),
        ("credits", administration.credit_commands),
        ("tax-category", administration.tax_commands),
        ("catalog", administration.catalog_commands),
    ):
        app.add_typer(group, name=name, rich_help_panel=_ADMINISTRATION)
    app.add_typer(_account_commands(), name="account", rich_help_panel=_ADMINISTRATION)
    app.command(rich_help_panel=_ADMINISTRATION)(backup.backup)
    app.command(rich_help_panel=_ADMINISTRATION)(backup.restore)
    for name, command in (
        ("publish", operators.publish),
        ("promote", operators.promote),
        ("test-products", operators.test_products),
        ("ping", operators.ping),
    ):
        app.command(name, rich_help_panel=_OPERATORS)(command)
    app.add_typer(jobs.commands, name="job", rich_help_panel=_OPERATORS)


def _account_commands() -> typer.Typer:
    """``account`` alone and ``account show`` are an operator's; connect and disconnect are administration."""
    group = typer.Typer(help="Credits and settings of a key's seller; connect and disconnect marketplace accounts.")

    @group.callback(invoke_without_command=True)
    def account(
        context: typer.Context, key_file: KeyFile = None, demo: DemoKey = None, as_json: AsJson = False
    ) -> None:
        if context.invoked_subcommand is None:
            show(key_file, demo, as_json)

    @group.command("show")
    def show(key_file: KeyFile = None, demo: DemoKey = None, as_json: AsJson = False) -> None:
        """Show credits and publishing settings of the key's seller.

        Example: listings account show --demo live
        """
        with Output(as_json) as output, core_for_key(key_file, demo) as core:
            operators.show_account(output, core)

    group.command("connect")(administration.connect_account)
    group.command("disconnect")(administration.disconnect_account)
    group.command("reencrypt")(administration.reencrypt_accounts)
    return group
