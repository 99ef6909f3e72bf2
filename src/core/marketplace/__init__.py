"""The Mercado Libre connector behind ``core.ports.marketplace``."""

from core.marketplace.connector import MercadoLibre

__all__ = ["MercadoLibre"]
