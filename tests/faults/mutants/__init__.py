"""Known defects, seeded one by one into a copy of the sources: each must turn a check red, or the checks are blind."""
