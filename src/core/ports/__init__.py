"""What the service asks of the world outside, as Protocols, and the values that travel through them."""
