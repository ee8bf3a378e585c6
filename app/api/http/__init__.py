"""What every route shares: middleware, authentication, rate limits, errors, ETags, the OpenAPI document."""
