"""Google Compute Engine as gpulease needs it: REST v1 on `/compute/v1/`, access tokens on `/gce/token`."""
