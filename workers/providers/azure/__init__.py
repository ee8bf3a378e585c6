"""The Azure adapter: Compute and Network through Azure's SDKs, one module per subject, `adapter` is the way in."""
