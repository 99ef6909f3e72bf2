"""The table, the JSON file and the plot."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

from bench.measure import Row


def table(rows: list[Row]) -> str:
    """The rows as a Markdown table."""
    lines = [
        "| operation | against | ours | theirs | ratio | bar | |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if row.ours is None:
            lines.append(f"| {row.operation} | {row.against} | | | | | skipped: {row.note} |")
            continue
        theirs = "" if row.theirs is None else f"{_number(row.theirs)} {row.unit}"
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        verdict = row.verdict + (f" ({row.note})" if row.note else "")
        lines.append(
            f"| {row.operation} | {row.against} | {_number(row.ours)} {row.unit} | {theirs} | {ratio} | {bar(row)}"
            f" | {verdict} |"
        )
    return "\n".join(lines)


def bar(row: Row) -> str:
    """The bar in words."""
    if row.bar is None:
        return ""
    return f"{'≥' if row.at_least else '≤'} {row.bar:g} ×"


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def write(rows: list[Row], facts: dict[str, Any], folder: Path) -> None:
    """``latest.json`` and ``latest.png`` in the folder."""
    folder.mkdir(exist_ok=True)
    document = {
        "machine": {"platform": platform.platform(), "python": platform.python_version()},
        **facts,
        "rows": [
            {
                "operation": row.operation,
                "against": row.against,
                "ours": row.ours,
                "theirs": row.theirs,
                "unit": row.unit,
                "ratio": row.ratio,
                "bar": row.bar,
                "at_least": row.at_least,
                "verdict": row.verdict,
                "note": row.note,
                "samples": row.samples,
            }
            for row in rows
        ],
    }
    (folder / "latest.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    _plot([row for row in rows if row.ratio and row.bar], folder / "latest.png")


def _plot(rows: list[Row], path: Path) -> None:
    """How far each ratio is from its bar: right of the line is better than asked for."""
    import matplotlib as mpl  # noqa: PLC0415 - slow to load, and needed here alone

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    margins, names, colours = [], [], []
    for row in reversed(rows):
        assert row.ratio is not None
        assert row.bar is not None
        margins.append(row.ratio / row.bar if row.at_least else row.bar / row.ratio)
        names.append(f"{row.operation}\nagainst {row.against}")
        colours.append("#2a7f4f" if row.verdict == "met" else "#b5442e")
    figure, axes = plt.subplots(figsize=(11, 0.62 * len(rows) + 1.4))
    axes.barh(range(len(rows)), margins, color=colours)
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(rows)), names, fontsize=8)
    axes.set_xlabel("times as good as the bar (log scale; the line is the bar)")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
