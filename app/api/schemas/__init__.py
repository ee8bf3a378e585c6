"""Request and response models, and how rows become JSON."""
