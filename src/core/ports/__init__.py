"""What the service asks of the world outside, as Protocols: marketplace, catalogue."""
