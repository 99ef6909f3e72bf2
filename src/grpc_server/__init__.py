"""The gRPC face of core: proto ↔ domain, errors ↔ statuses, and nothing that decides."""
