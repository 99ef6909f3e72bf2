"""The OpenAPI document as one plain HTML page: no script, nothing fetched from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

Json = dict[str, Any]

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
code { font: 0.9em ui-monospace, monospace; background: var(--soft); padding: 0.1em 0.3em; border-radius: 3px; }
details { border: 1px solid var(--line); border-radius: 6px; margin: 0.6rem 0; padding: 0.5rem 0.9rem; }
summary { cursor: pointer; } summary b { display: inline-block; min-width: 3.5rem; }
table { border-collapse: collapse; width: 100%; margin: 0.5rem 0 1rem; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.6rem 0.3rem 0; border-top: 1px solid var(--line); }
nav a { margin-right: 1rem; }
"""


def render_docs(document: Json) -> bytes:
    """The page, UTF-8. Everything in it comes from the document."""
    info = document["info"]
    tags = document["tags"]
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(info['title'])} {escape(info['version'])}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>",
        _paragraphs(info["description"]),
        "<p>Machine-readable: <a href='/openapi.json'>/openapi.json</a></p><nav>",
        *(f"<a href='#{escape(tag['name'])}'>{escape(tag['name'])}</a>" for tag in tags),
        "<a href='#schemas'>Schemas</a></nav>",
    ]
    for tag in tags:
        parts.append(f"<h2 id='{escape(tag['name'])}'>{escape(tag['name'])}</h2>")
        parts.append(_paragraphs(tag["description"]))
        for path, methods in document["paths"].items():
            parts.extend(
                _operation(path, method, operation)
                for method, operation in methods.items()
                if tag["name"] in operation["tags"]
            )
    parts.append("<h2 id='schemas'>Schemas</h2>")
    parts.extend(_named_schema(name, schema) for name, schema in document["components"]["schemas"].items())
    parts.append("</body></html>")
    return "".join(parts).encode()


def _text(text: str) -> str:
    """Escaped text; what stands between backquotes is set as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{_text(paragraph)}</p>" for paragraph in text.split("\n\n"))


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table; cells are HTML."""
    if not rows:
        return ""
    header = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{header}</tr>{body}</table>"


def _operation(path: str, method: str, operation: Json) -> str:
    parameters = [
        (
            f"<code>{escape(parameter['name'])}</code>",
            escape(parameter["in"]),
            _type(parameter["schema"]),
            _text(parameter["description"]),
        )
        for parameter in operation.get("parameters", [])
    ]
    responses = [
        (escape(status), _body(response), _text(response["description"]))
        for status, response in operation["responses"].items()
    ]
    request = operation.get("requestBody")
    body = f"<p>Body: {_body(request)}{'' if request['required'] else ' (optional)'}</p>" if request else ""
    return (
        f"<details><summary><b>{escape(method.upper())}</b> <code>{escape(path)}</code> "
        f"{_text(operation['summary'])}</summary>{_paragraphs(operation.get('description', ''))}{body}"
        f"{_table(('Parameter', 'In', 'Type', ''), parameters)}"
        f"{_table(('Status', 'Body', ''), responses)}</details>"
    )


def _body(holder: Json) -> str:
    content = holder.get("content", {})
    return ", ".join(f"{_type(media['schema'])} ({escape(kind)})" for kind, media in content.items())


def _type(schema: Json) -> str:
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f"<a href='#schema-{name}'>{name}</a>"
    kind = schema.get("type", "any")
    names = [kind] if isinstance(kind, str) else kind
    text = " or ".join(escape(name) for name in names)
    if "array" in names:
        text = text.replace("array", f"array of {_type(schema['items'])}")
    if "enum" in schema:
        text += ": " + ", ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"] if value is not None)
    if "default" in schema:
        text += f" (default {escape(str(schema['default']))})"
    return text


def _named_schema(name: str, schema: Json) -> str:
    return (
        f"<details id='schema-{escape(name)}'><summary><b>{escape(name)}</b> "
        f"{_text(schema['description'])}</summary>{_properties(schema)}</details>"
    )


def _properties(schema: Json, prefix: str = "") -> str:
    rows: list[tuple[str, ...]] = []
    _collect(schema, prefix, rows)
    return _table(("Field", "Type", ""), rows)


def _collect(schema: Json, prefix: str, rows: list[tuple[str, ...]]) -> None:
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        optional = "" if name in required else " (optional)"
        rows.append(
            (
                f"<code>{escape(prefix + name)}</code>{optional}",
                _type(field),
                _text(field.get("description", "")),
            )
        )
        if "properties" in field:
            _collect(field, f"{prefix}{name}.", rows)
