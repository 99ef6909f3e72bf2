"""One module per operation. A use case owns its transaction; whoever calls it translates.

Every use case takes the caller as a ``Principal`` and raises ``ApiError`` for each documented refusal.
"""
