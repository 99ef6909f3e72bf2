"""The command ``listings``: the processes of the service, its administration, and the operators' tools."""

import os

# gRPC hooks every fork of its process, and in the child its hooks crash it or close files of others: of 200 programs
# started as another user (which is how root starts PostgreSQL) while calls ran, 86 died before their first
# instruction. Nothing here forks without starting another program, so the hooks serve nobody. Read when gRPC is
# loaded: this module comes before.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
