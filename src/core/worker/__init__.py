"""The worker: claim → price and categorise → publish → record, and everything that heals.

``decide`` holds the decisions as pure functions; the other modules carry them out. Nothing here posts an
item twice on its own account: a send needs a committed intent, and an unknown outcome needs a search.
"""
