"""Attribute definitions of the categories (reference section 5) and the sale terms.

BRAND and MODEL are ``catalog_required`` (their absence is a warning) nearly everywhere, because a product
catalogue does not always know them; the special categories require more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

YES, NO = "242085", "242084"


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of a category. values: id to name; closed: only those value ids are taken."""

    id: str
    name: str
    value_type: str = "string"
    tags: tuple[str, ...] = ()
    values: dict[str, str] = field(default_factory=dict)
    units: tuple[str, ...] = ()
    default_unit: str | None = None

    @property
    def closed(self) -> bool:
        """Whether a value outside `values` is refused."""
        return self.value_type in {"list", "boolean"}

    def body(self) -> dict[str, Any]:
        """The element of ``GET /categories/{id}/attributes``."""
        shown: dict[str, Any] = {
            "id": self.id,
            "name": self.name,
            "tags": dict.fromkeys(self.tags, True),
            "hierarchy": "PARENT_PK" if self.id in {"BRAND", "MODEL"} else "ITEM",
            "relevance": 1 if {"required", "catalog_required"} & set(self.tags) else 2,
            "value_type": self.value_type,
            "value_max_length": 255,
            "attribute_group_id": "OTHERS",
            "attribute_group_name": "Otros",
        }
        if self.values:
            shown["values"] = [{"id": key, "name": name} for key, name in self.values.items()]
        if self.units:
            shown["allowed_units"] = [{"id": unit, "name": unit} for unit in self.units]
            shown["default_unit"] = self.default_unit
        return shown


COLORS = {
    "52049": "Negro",
    "52055": "Blanco",
    "51993": "Rojo",
    "52028": "Azul",
    "52014": "Verde",
    "52007": "Amarillo",
    "52000": "Naranja",
    "51994": "Rosa",
    "52035": "Violeta",
    "52005": "Marrón",
    "52051": "Gris",
    "52053": "Plateado",
    "283165": "Dorado",
    "52001": "Beige",
}

# English and Spanish colour words (as in a normalised title) to value ids.
COLOR_WORDS = {
    "black": "52049",
    "negro": "52049",
    "white": "52055",
    "blanco": "52055",
    "red": "51993",
    "rojo": "51993",
    "blue": "52028",
    "azul": "52028",
    "navy": "52028",
    "green": "52014",
    "verde": "52014",
    "yellow": "52007",
    "amarillo": "52007",
    "orange": "52000",
    "naranja": "52000",
    "pink": "51994",
    "rosa": "51994",
    "purple": "52035",
    "violet": "52035",
    "brown": "52005",
    "marron": "52005",
    "gray": "52051",
    "grey": "52051",
    "gris": "52051",
    "silver": "52053",
    "plateado": "52053",
    "gold": "283165",
    "dorado": "283165",
    "beige": "52001",
}

EMPTY_GTIN_REASONS = {
    "17055158": "El producto es artesanal",
    "17055159": "El producto es un kit o un pack",
    "17055160": "El producto no tiene código registrado",
    "17055161": "Otra razón",
}

CONDITIONS = {"2230284": "Nuevo", "2230581": "Usado", "2230582": "Reacondicionado"}

_LENGTH_UNITS = ("cm", "mm", "m", '"', "in", "ft")
_WEIGHT_UNITS = ("g", "kg", "lb", "oz")


def _package(required: bool) -> tuple[Attribute, ...]:
    tags = ("hidden", "required") if required else ("hidden",)
    return (
        Attribute("SELLER_PACKAGE_HEIGHT", "Altura del paquete", "number_unit", tags, {}, ("cm",), "cm"),
        Attribute("SELLER_PACKAGE_WIDTH", "Ancho del paquete", "number_unit", tags, {}, ("cm",), "cm"),
        Attribute("SELLER_PACKAGE_LENGTH", "Longitud del paquete", "number_unit", tags, {}, ("cm",), "cm"),
        Attribute("SELLER_PACKAGE_WEIGHT", "Peso del paquete", "number_unit", tags, {}, ("g",), "g"),
    )


_COMMON = (
    Attribute("COLOR", "Color", "string", ("allow_variations",), COLORS),
    Attribute("MATERIAL", "Material", "string"),
    Attribute("UNITS_PER_PACK", "Unidades por pack", "number"),
    Attribute("ITEM_CONDITION", "Condición del ítem", "list", ("hidden",), CONDITIONS),
    Attribute("SELLER_SKU", "SKU", "string", ("hidden", "variation_attribute")),
    Attribute("EMPTY_GTIN_REASON", "Motivo de GTIN vacío", "list", ("hidden",), EMPTY_GTIN_REASONS),
    Attribute("PRODUCT_DATA_SOURCE", "Fuente de los datos", "string", ("hidden", "read_only")),
)

_GENDER = Attribute(
    "GENDER",
    "Género",
    "list",
    (),
    {
        "339665": "Mujer",
        "339666": "Hombre",
        "339668": "Niñas",
        "339667": "Niños",
        "110461": "Sin género",
    },
)

_BY_ROOT: dict[str, tuple[Attribute, ...]] = {
    "MCO1430": (_GENDER, Attribute("SIZE", "Talla", "string", ("allow_variations",))),
    "MCO3937": (_GENDER,),
    "MCO158425": (
        Attribute("WITH_WHEELS", "Con ruedas", "boolean", (), {YES: "Sí", NO: "No"}),
        Attribute("CAPACITY", "Capacidad", "number_unit", (), {}, ("L", "mL"), "L"),
    ),
    "MCO5726": (
        Attribute("VOLTAGE", "Voltaje", "list", (), {"198812": "110V", "198813": "220V", "198814": "110V/220V"}),
        Attribute("POWER", "Potencia", "number_unit", (), {}, ("W", "kW"), "W"),
    ),
    "MCO1000": (Attribute("IS_WIRELESS", "Es inalámbrico", "boolean", (), {YES: "Sí", NO: "No"}),),
    "MCO1648": (Attribute("DISPLAY_SIZE", "Tamaño de pantalla", "number_unit", (), {}, ('"', "in", "cm"), '"'),),
    "MCO1132": (Attribute("MIN_RECOMMENDED_AGE", "Edad mínima", "number_unit", (), {}, ("años", "meses"), "años"),),
    "MCO1574": (
        Attribute("WIDTH", "Ancho", "number_unit", (), {}, _LENGTH_UNITS, "cm"),
        Attribute("WEIGHT", "Peso", "number_unit", (), {}, _WEIGHT_UNITS, "kg"),
    ),
    "MCO3025": (
        Attribute("AUTHOR", "Autor", "string"),
        Attribute("BOOK_TITLE", "Título del libro", "string"),
    ),
}


def attributes_of(
    root_id: str,
    *,
    brand_required: bool = False,
    identifier_required: bool = False,
    size_chart_required: bool = False,
    package_required: bool = False,
) -> dict[str, Attribute]:
    """The attributes of a leaf of this root, by id, in the order in which they are listed."""
    brand_tags = ("required",) if brand_required else ("catalog_required",)
    found = [
        Attribute("BRAND", "Marca", "string", brand_tags),
        Attribute("MODEL", "Modelo", "string", brand_tags),
        Attribute(
            "GTIN",
            "Código universal de producto",
            "string",
            ("multivalued", "conditional_required") if identifier_required else ("multivalued",),
        ),
        *_COMMON,
        *_BY_ROOT.get(root_id, ()),
        *_package(package_required),
    ]
    if size_chart_required:
        found.append(Attribute("SIZE_GRID_ID", "ID de la guía de tallas", "grid_id", ("required",)))
    return {attribute.id: attribute for attribute in found}


WARRANTY_TYPES = {"2230280": "Garantía del vendedor", "2230279": "Garantía de fábrica", "6150835": "Sin garantía"}

# How sellers write the units of a sale term, besides the ones the platform lists.
TERM_UNITS = {
    **dict.fromkeys(("día", "dia", "días", "dias"), "días"),
    **dict.fromkeys(("mes", "meses"), "meses"),
    **dict.fromkeys(("año", "ano", "años", "anos"), "años"),
}

SALE_TERMS = {
    term.id: term
    for term in (
        Attribute("WARRANTY_TYPE", "Tipo de garantía", "list", (), WARRANTY_TYPES),
        Attribute("WARRANTY_TIME", "Tiempo de garantía", "number_unit", (), {}, ("días", "meses", "años"), "meses"),
        Attribute("MANUFACTURING_TIME", "Disponibilidad de stock", "number_unit", (), {}, ("días",), "días"),
    )
}
