"""Endpoints, one module per concern of the contract."""
