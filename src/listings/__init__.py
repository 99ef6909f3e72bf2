"""The command ``listings``: the processes of the service, its administration, and the operators' tools."""
