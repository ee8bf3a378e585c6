"""Provider adapters: one per cloud beside one error table per cloud, imported on use."""
