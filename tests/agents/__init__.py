"""An agent that spends as much as its key allows, until its process is killed."""
