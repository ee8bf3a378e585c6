"""Webhook messages: formats, sentences, signature, retries and receivers' URLs."""
