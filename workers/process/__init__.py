"""What runs in a process of the Celery side."""
