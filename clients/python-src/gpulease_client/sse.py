"""Server-sent events (WHATWG HTML, section 9.2): lines in, events out."""

from dataclasses import dataclass, field


@dataclass
class Parser:
    """Collects the lines of one stream. `last_id` and `retry_seconds` are what a reconnection needs."""

    last_id: str | None = None
    retry_seconds: float = 2.0
    _data: list[str] = field(default_factory=list)
    _pending_id: str | None = None

    def feed(self, line: str) -> str | None:
        """Returns the data of an event that this line completes, else None. `last_id` is then the event's id."""
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self._pending_id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry_seconds = int(value) / 1000
        return None

    def restart(self) -> None:
        """Forgets an incomplete event, because its connection has ended."""
        self._data.clear()
        self._pending_id = None

    def _dispatch(self) -> str | None:
        if self._pending_id is not None:
            self.last_id, self._pending_id = self._pending_id, None
        data = "\n".join(self._data) if self._data else None
        self._data.clear()
        return data
