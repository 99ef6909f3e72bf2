"""The service itself: values and rules, storage, use cases, the marketplace and the worker.

Knows no gRPC, no protobuf and no web framework; those faces are siblings of this package.
"""
