"""The Celery side of gpulease: launches, follows and ends VMs at the clouds."""
