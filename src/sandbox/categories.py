"""The category tree, as objects and as the bodies the API shows, and the category predictor."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import msgspec

from sandbox import category_table as table
from sandbox.attributes import COLOR_WORDS, COLORS, SALE_TERMS, Attribute, attributes_of

MAX_PRICE = 9_999_999_999
MAX_DESCRIPTION_LENGTH = 50_000
PREDICTIONS_MAX = 8
PREDICTIONS_DEFAULT = 4


@dataclass(frozen=True, slots=True)
class Category:
    """One node of the tree. Prices in whole COP. children is empty for a leaf."""

    id: str
    name: str
    path: tuple[tuple[str, str], ...]
    children: tuple[tuple[str, str], ...]
    domain_id: str
    domain_name: str
    attributes: dict[str, Attribute]
    required: tuple[str, ...]
    catalog_required: tuple[str, ...]
    identifier_required: bool = False
    listing_allowed: bool = True
    max_title_length: int = 60
    max_pictures: int = 12
    minimum_price: int = 1000
    accredited_brands_only: bool = False
    currencies: tuple[str, ...] = ("COP",)

    @property
    def takes_listings(self) -> bool:
        """Whether items can be published here (a leaf that is open)."""
        return self.listing_allowed and not self.children

    def body(self) -> bytes:
        """JSON of ``GET /categories/{id}``."""
        return msgspec.json.encode(
            {
                "id": self.id,
                "name": self.name,
                "picture": None,
                "permalink": None,
                "total_items_in_this_category": 0,
                "path_from_root": [{"id": key, "name": name} for key, name in self.path],
                "children_categories": [
                    {"id": key, "name": name, "total_items_in_this_category": 0} for key, name in self.children
                ],
                "attribute_types": "attributes",
                "settings": {
                    "adult_content": False,
                    "buying_allowed": True,
                    "buying_modes": ["buy_it_now"],
                    "catalog_domain": self.domain_id,
                    "coverage_areas": "not_allowed",
                    "currencies": list(self.currencies),
                    "fragile": False,
                    "immediate_payment": "required",
                    "item_conditions": ["new", "used", "not_specified"],
                    "items_reviews_allowed": False,
                    "listing_allowed": self.takes_listings,
                    "max_description_length": MAX_DESCRIPTION_LENGTH,
                    "max_pictures_per_item": self.max_pictures,
                    "max_pictures_per_item_var": 10,
                    "max_sub_title_length": 70,
                    "max_title_length": self.max_title_length,
                    "max_variations_allowed": 100,
                    "maximum_price": None,
                    "maximum_price_currency": "COP",
                    "minimum_price": self.minimum_price,
                    "minimum_price_currency": "COP",
                    "mirror_category": None,
                    "price": "required",
                    "shipping_modes": ["me2", "me1", "custom", "not_specified"],
                    "shipping_options": ["custom", "carrier"],
                    "shipping_profile": "optional",
                    "status": "enabled",
                    "stock": "required",
                },
                "channels_settings": [{"channel": "marketplace", "settings": {"status": "enabled"}}],
            }
        )

    def attributes_body(self) -> bytes:
        """JSON of ``GET /categories/{id}/attributes``."""
        return msgspec.json.encode([attribute.body() for attribute in self.attributes.values()])


def _leaf(root: tuple[str, str], leaf: table.Leaf) -> Category:
    attributes = attributes_of(
        root[0],
        brand_required=leaf is table.STRICT_ATTRIBUTES,
        identifier_required=leaf is table.STRICT_IDENTIFIER,
        size_chart_required=leaf is table.STRICT_SIZE_CHART,
        package_required=leaf is table.STRICT_PACKAGE,
    )
    return Category(
        id=leaf.id,
        name=leaf.name,
        path=(root, (leaf.id, leaf.name)),
        children=(),
        domain_id=f"MCO-{leaf.domain}",
        domain_name=leaf.name,
        attributes=attributes,
        required=tuple(key for key, value in attributes.items() if "required" in value.tags),
        catalog_required=tuple(key for key, value in attributes.items() if "catalog_required" in value.tags),
        identifier_required=leaf is table.STRICT_IDENTIFIER,
        listing_allowed=leaf is not table.LISTING_CLOSED,
        max_title_length=200 if leaf is table.LONG_TITLE else 60,
        max_pictures=2 if leaf is table.FEW_PICTURES else 12,
        minimum_price=1_000_000 if leaf is table.HIGH_MINIMUM else 1000,
        accredited_brands_only=leaf is table.STRICT_BRAND,
    )


def _build() -> dict[str, Category]:
    found: dict[str, Category] = {}
    roots: list[tuple[str, str, tuple[table.Leaf, ...]]] = [
        *table.ROOTS,
        (*table.OTHER_ROOT, (table.OTHER_LEAF,)),
        (*table.SPECIAL_ROOT, table.SPECIAL_LEAVES),
    ]
    for root_id, root_name, leaves in roots:
        found[root_id] = Category(
            id=root_id,
            name=root_name,
            path=((root_id, root_name),),
            children=tuple((leaf.id, leaf.name) for leaf in leaves),
            domain_id="",
            domain_name="",
            attributes={},
            required=(),
            catalog_required=(),
            listing_allowed=False,
        )
        for leaf in leaves:
            found[leaf.id] = _leaf((root_id, root_name), leaf)
    return found


CATEGORIES: dict[str, Category] = _build()
ROOT_CATEGORIES = tuple(category for category in CATEGORIES.values() if len(category.path) == 1)
OTHER = CATEGORIES[table.OTHER_LEAF.id]


def category(category_id: str) -> Category | None:
    """The category of this id, or None."""
    return CATEGORIES.get(category_id)


@cache
def category_body(category_id: str) -> bytes:
    """JSON of one category; the id must exist."""
    return CATEGORIES[category_id].body()


@cache
def attributes_body(category_id: str) -> bytes:
    """JSON of one category's attributes; the id must exist."""
    return CATEGORIES[category_id].attributes_body()


@lru_cache(maxsize=1)
def sale_terms_body() -> bytes:
    """JSON of ``GET /categories/{id}/sale_terms``, the same for every leaf."""
    return msgspec.json.encode([term.body() for term in SALE_TERMS.values()])


_WORD = re.compile(r"[a-z0-9]+", re.ASCII)
_LETTER = re.compile(r"[^\W\d_]")
_APOSTROPHE = re.compile("['’`´]s?(?![a-z])")
# Between the words of a Spanish phrase: "juego de mesa" is the phrase juego_mesa.
_ARTICLES = frozenset({"de", "del", "la", "el", "los", "las", "para"})
_SIBILANT = ("ches", "shes", "xes", "sses")


def _singular(word: str) -> str:
    if len(word) <= 3 or not word.endswith("s") or word.endswith("ss"):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(_SIBILANT):
        return word[:-2]
    return word[:-1]


def words_of(title: str) -> list[str]:
    """The words of a title: lower case, without accents, in the singular, possessives cut."""
    decomposed = unicodedata.normalize("NFKD", title)
    plain = "".join(character for character in decomposed if not unicodedata.combining(character)).lower()
    return [_singular(word) for word in _WORD.findall(_APOSTROPHE.sub("", plain)) if word not in _ARTICLES]


def _keyword_table() -> dict[str, list[tuple[tuple[str, ...], str, int]]]:
    """First word of a keyword to (its other words, leaf id, weight)."""
    keywords: dict[str, list[tuple[tuple[str, ...], str, int]]] = {}
    for _, _, leaves in table.ROOTS:
        for leaf in leaves:
            for entry in leaf.keywords.split():
                first, *rest = [_singular(part) for part in entry.rstrip("!").split("_")]
                weight = (2 if entry.endswith("!") else 1) * (3 if rest else 1)
                keywords.setdefault(first, []).append((tuple(rest), leaf.id, weight))
    return keywords


_KEYWORDS = _keyword_table()
_POSITION = {category_id: position for position, category_id in enumerate(CATEGORIES)}
_OPENING_WORDS = 10


def predict(title: str) -> list[str]:
    """Leaf category ids that fit `title`, best first; ``Otros`` when nothing does, [] without any letter.

    Deterministic: a score by keywords (phrases weigh more, so do the first words of the title, where
    the product usually is named); ties go to the category that stands first in the table.
    """
    if _LETTER.search(title) is None:
        return []
    words = words_of(title)
    scores: dict[str, float] = {}
    for start, word in enumerate(words):
        bonus = 1.5 if start < _OPENING_WORDS else 1.0
        for rest, leaf_id, weight in _KEYWORDS.get(word, ()):
            if not rest or tuple(words[start + 1 : start + 1 + len(rest)]) == rest:
                scores[leaf_id] = scores.get(leaf_id, 0.0) + weight * bonus
    if not scores:
        return [OTHER.id]
    return sorted(scores, key=lambda leaf_id: (-scores[leaf_id], _POSITION[leaf_id]))[:PREDICTIONS_MAX]


def predicted_attributes(title: str) -> list[dict[str, Any]]:
    """What the predictor reads out of a title besides the category: a colour, when one is named."""
    for word in words_of(title):
        value_id = COLOR_WORDS.get(word)
        if value_id is not None:
            return [{"id": "COLOR", "name": "Color", "value_id": value_id, "value_name": COLORS[value_id]}]
    return []
