"""Amounts of money as text."""

from decimal import Decimal


def format_money(value: Decimal) -> str:
    """USD with two decimals at least and six at most: 21.96, 0.526, 100.00."""
    digits = f"{value:.6f}".rstrip("0")
    whole, _, fraction = digits.partition(".")
    return f"{whole}.{fraction.ljust(2, '0')}"
