"""The asynchronous client. `make clients` derives the synchronous one, `gpulease_client._sync`, from these files."""
