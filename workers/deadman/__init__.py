"""`gpulease deadman`: the dead-man switch, a command of its own that needs neither database nor API."""
