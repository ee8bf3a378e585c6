from dataclasses import dataclass

START = 1_795_176_896.0
"""2026-11-20 12:14:56 UTC."""


@dataclass
class ManualClock:
    """A clock that stands until it is moved."""

    now: float = START

    def __call__(self) -> float:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += seconds
