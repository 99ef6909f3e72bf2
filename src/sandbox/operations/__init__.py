"""The operations of the marketplace API, one module per resource; each takes the market and a request."""
