"""What every process of the Celery side has."""
