"""The demo seller belongs to the database, its file to the data folder; one may be exchanged without the other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.app import Application
from core.use_cases import administration
from listings.demo import Demo, ensure_demo
from listings.installation import demo_path
from tests.support import service


@pytest.fixture(autouse=True)
def _own_folder(own_application: Application, tmp_path: Path) -> None:
    own_application.settings = own_application.settings.model_copy(update={"data_dir": tmp_path})


async def demo_of(application: Application) -> Demo:
    return await ensure_demo(application, base_url="http://localhost/v1", grpc_target="localhost:1", connect=True)


async def test_the_demo_seller_is_made_once(own_application: Application) -> None:
    first = await demo_of(own_application)
    again = await demo_of(own_application)
    assert (first.created, again.created) == (True, False)
    assert again.document == first.document


async def test_a_revoked_demo_key_stays_revoked(own_application: Application) -> None:
    first = await demo_of(own_application)
    for key in await administration.list_keys(own_application.database, first.document["seller_id"]):
        await administration.revoke_key(own_application.database, key.key_id)
    assert not (await demo_of(own_application)).created


@pytest.mark.parametrize("known", [False, True], ids=["unknown seller", "another seller of that number"])
async def test_the_file_of_another_database_is_made_anew(own_application: Application, known: bool) -> None:
    tenant = await service.new_tenant(own_application)
    old = await demo_of(own_application)
    path = demo_path(own_application.settings)
    path.write_text(json.dumps(old.document | {"seller_id": tenant.seller_id if known else 4711}))

    made = await demo_of(own_application)

    assert made.created
    assert made.document["test_key"] != old.document["test_key"]
    assert json.loads(path.read_text()) == made.document
