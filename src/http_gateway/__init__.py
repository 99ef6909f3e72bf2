"""The REST v1 face: strict JSON in, one gRPC call to core, JSON out.

Holds no rule of the business. What a request means (is this a SKU, are there credits) is core's; what a
request *is* (JSON, types, headers, limits of the transport) is decided here. Sees only the generated
code and core's errors, settings, log and metrics.
"""
