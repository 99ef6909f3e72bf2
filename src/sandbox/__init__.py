"""A marketplace for tests and for trying the service out: it speaks the Mercado Libre API on a real socket.

It takes the place of ``https://api.mercadolibre.com`` for site MCO (Colombia): OAuth with rotating refresh
tokens, both seller models, validation with causes, categories and a predictor, items that start paused
while their pictures load, a search index that lags, descriptions, pictures, fees, currency, notifications.
On top of that an operator can switch faults on while it runs, and read what really happened.

How a request travels::

    socket -> connection.Connection   HTTP/1.1, in order; delivers, resets, drips or keeps silent
           -> app.Sandbox.handle      route, rate limit, token, fault rules
           -> operations/*            one function per API operation
           -> market.Market           users, items, tokens, timeline
           -> effects.EffectLog       durable record, written before the answer leaves

Use it
------
``python -m sandbox --addr 127.0.0.1:8090 --data DIR`` serves until SIGTERM or SIGINT and prints one ready
line; ``sandbox.server.run(config)`` does the same inside another program, ``sandbox.server.SandboxServer``
inside a running event loop. ``sandbox.app.create_app(config)`` is the sandbox without a socket: give it a
``sandbox.messages.Request``, get a ``sandbox.messages.Answer``.

Any access token ``APP_USR-...-<user id>`` and, once, any refresh token ``TG-...-<user id>`` is taken; the
user comes into being on first sight. docs/sandbox.md describes marks, faults and the ``/sandbox`` calls.

This package imports nothing of the service, so that it can be wrong only on its own account.
"""
