"""Product files: CSV and JSON Lines with everything that real ones have."""

from __future__ import annotations

import io
import os
import threading
from decimal import Decimal
from pathlib import Path

import pytest

from core.catalog.files import CatalogFileError
from core.catalog.importer import Finding, ImportReport, read_products
from core.domain.product import Product

HEADER = "sku,title,category,cost_usd,image_url\n"
ROW = "B014TMV5YE,Maleta,Equipaje,10,https://x/a.jpg\n"


def read(folder: Path, content: str | bytes, name: str = "products.csv") -> tuple[dict[str, Product], ImportReport]:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_products(path)


def test_columns_may_stand_in_any_order_and_unknown_ones_are_noted(tmp_path: Path) -> None:
    products, report = read(
        tmp_path, "extra,cost_usd,IMAGE_URL,sku, title ,category,weight_grams\nx,5,,B014TMV5YE,Maleta,Equipaje,10\n"
    )
    assert products["B014TMV5YE"].cost_usd == Decimal(5)
    assert products["B014TMV5YE"].weight_grams == 10
    assert (report.read, report.refused) == (1, 0)
    assert report.notes == [Finding(1, "1", "this column is not known and was passed over")]


def test_a_byte_order_mark_and_other_line_ends_are_fine(tmp_path: Path) -> None:
    products, report = read(tmp_path, b"\xef\xbb\xbf" + (HEADER + ROW).replace("\n", "\r\n").encode())
    assert list(products) == ["B014TMV5YE"]
    assert report.refusals == []


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(("\ufeff" + HEADER + ROW).encode())))
    products, _ = read_products(Path("-"))
    assert list(products) == ["B014TMV5YE"]


def test_a_pipe_with_a_name_is_read_like_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(HEADER + ROW,), daemon=True)
    writer.start()
    products, _ = read_products(pipe)
    writer.join()
    assert list(products) == ["B014TMV5YE"]


def test_quoted_commas_quotes_and_newlines(tmp_path: Path) -> None:
    second = ROW.replace("B014TMV5YE", "B014TMV5YF").replace(",10,", ",x,")
    products, report = read(
        tmp_path, HEADER + 'B014TMV5YE,"Maleta, 20""\ncon ruedas",Equipaje,10,https://x/a.jpg\n' + second
    )
    assert products["B014TMV5YE"].title == 'Maleta, 20"\ncon ruedas'
    # The row before took two lines: places are lines of the file, not numbers of rows.
    assert [(each.line, each.column) for each in report.refusals] == [(4, "cost_usd")]


def test_bad_rows_are_named_and_the_others_kept(tmp_path: Path) -> None:
    products, report = read(
        tmp_path,
        HEADER
        + ROW
        + "short,row\n"
        + "B014TMV5Y1,a,b,1,https://x/a.jpg,too,many\n"
        + "\n"
        + 'B014TMV5Y2,a "quoted" b,c,1,\n'
        + 'B014TMV5Y3,"a "b" c",c,1,\n'
        + ROW.replace("B014TMV5YE", "B014TMV5Y4"),
    )
    assert list(products) == ["B014TMV5YE", "B014TMV5Y2", "B014TMV5Y4"]
    assert [each.line for each in report.refusals] == [3, 4, 7]
    assert (report.read, report.refused) == (6, 3)
    assert "B014" not in str(report.refusals)


def test_a_quote_that_never_closes_is_named_where_it_opens(tmp_path: Path) -> None:
    products, report = read(tmp_path, HEADER + ROW + 'B014TMV5Y1,"open,b,1,\n' + ROW * 3)
    assert list(products) == ["B014TMV5YE"]
    assert report.refusals == [Finding(3, "", "a quote that opens here is never closed")]


def test_bytes_that_are_no_utf_8_refuse_their_row_alone(tmp_path: Path) -> None:
    bad = "B014TMV5Y1,Sillón,Hogar,1,\n".encode("latin-1")
    products, report = read(tmp_path, HEADER.encode() + bad + ROW.encode())
    assert list(products) == ["B014TMV5YE"]
    assert report.refusals == [Finding(2, "title", "must be valid UTF-8")]


def test_of_equal_skus_the_last_wins_and_it_is_told(tmp_path: Path) -> None:
    products, report = read(tmp_path, HEADER + ROW + ROW.replace(",10,", ",20,") + ROW.replace(",10,", ",30,"))
    assert products["B014TMV5YE"].cost_usd == Decimal(30)
    assert (report.read, report.repeated) == (3, 2)
    assert [each.line for each in report.notes] == [2, 3]
    assert "line 4" in report.notes[1].rule


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "lacks sku, title, category, cost_usd, image_url"),
        (b"sku;title;category;cost_usd;image_url\n", "separated by commas"),
        (b"sku,title,category,cost_usd\n", "lacks image_url"),
        (b"sku,title,category,cost_usd,image_url,sku\n", "names sku more than once"),
        (HEADER.encode("utf-16"), "UTF-8"),
    ],
)
def test_a_header_that_does_not_fit_refuses_the_file(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(CatalogFileError, match=said):
        read(tmp_path, content)


def test_json_lines(tmp_path: Path) -> None:
    products, report = read(
        tmp_path,
        '{"sku": "B014TMV5YE", "title": "Maleta", "category": "Equipaje", "cost_usd": 139.99, '
        '"image_url": ["https://x/a.jpg", "https://x/b.jpg"], "weight_grams": 1200, "gtin": 7702004003508}\n'
        "\n"
        '{"sku": "B014TMV5YF", "title": "Bolso", "cost_usd": null, "unknown": {}}\n',
        "products.jsonl",
    )
    assert products["B014TMV5YE"].cost_usd == Decimal("139.99")
    assert products["B014TMV5YE"].image_urls == ("https://x/a.jpg", "https://x/b.jpg")
    assert products["B014TMV5YE"].gtin == "7702004003508"
    assert products["B014TMV5YF"].cost_usd is None
    assert (report.read, report.refused) == (2, 0)


def test_json_lines_are_recognised_without_a_suffix(tmp_path: Path) -> None:
    products, _ = read(tmp_path, '{"sku": "B014TMV5YE", "title": "Maleta"}\n', "products")
    assert list(products) == ["B014TMV5YE"]


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[1]",
        '"text"',
        '{"sku": "B014TMV5YE", "sku": "B014TMV5YE", "title": "a"}',
        '{"sku": "B014TMV5YE", "title": "a", "cost_usd": NaN}',
        '{"sku": "B014TMV5YE", "title": "a", "cost_usd": ' + "9" * 5000 + "}",
        '{"sku": "B014TMV5YE", "title": "a", "cost_usd": 1e999999999999}',
        '{"sku": "B014TMV5YE", "title": "a", "cost_usd": 1e9999999999999999999999}',
        '{"sku": "B014TMV5YE", "title": "a", "cost_usd": 0e999999999999}',
        '{"sku": "B014TMV5YE", "title": "a", "cost_usd": -1e-999999999999}',
        '{"sku": "B014TMV5YE", "title": "a\\ud800"}',
        '{"sku": "B014TMV5YE", "title": "a\\u0000"}',
        "[" * 100_000,
        '{"sku": "' + "x" * 2_000_000 + '"}',
    ],
)
def test_a_bad_json_line_is_named(tmp_path: Path, line: str) -> None:
    good = '{"sku": "B014TMV5YF", "title": "Bolso"}\n'
    products, report = read(tmp_path, good + line + "\n" + good.replace("5YF", "5YG"), "products.jsonl")
    assert list(products) == ["B014TMV5YF", "B014TMV5YG"]
    assert [each.line for each in report.refusals] == [2]


def test_all_findings_are_counted_though_not_all_are_kept(tmp_path: Path) -> None:
    _, report = read(tmp_path, HEADER + "bad,,,,\n" * 1_500)
    assert report.refused == 1_500
    assert len(report.refusals) == 1_000
