"""Events: pages of the past, and a stream of the present."""

import json
from asyncio import sleep
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import httpx

from gpulease_client._async.resource import AsyncResource
from gpulease_client.event import Event, parse_event
from gpulease_client.responses import params_of
from gpulease_client.sse import Parser

_SILENCE = 45.0
"""Seconds. The server sends a comment every 15 s, so a longer silence is a broken connection."""


class AsyncEvents(AsyncResource):
    """`/v1/events`."""

    def list(self, **filters: Any) -> AsyncIterator[Event]:
        """Past events in order, page after page. Filters are the query parameters, for example `after`."""
        return self._iterate(parse_event, "/v1/events", filters)

    async def stream(self, *, after: int | None = None, **filters: Any) -> AsyncGenerator[Event, None]:
        """Events as they happen, without end. `after`: start after this sequence, else with new events.

        The iterator reconnects after the last event that it has returned. It raises the error of a connection that
        fails after all retries, and `problems.CursorExpired` when the events after that point have been deleted.
        """
        parser = Parser(last_id=None if after is None else str(after))
        while True:
            try:
                async with aclosing(self._connection(parser, params_of(filters))) as events:
                    async for event in events:
                        yield event
            except httpx.TransportError:
                pass  # broken within a response; opening the next one raises if the API stays away
            parser.restart()
            await sleep(parser.retry_seconds)

    async def _connection(self, parser: Parser, params: dict[str, Any]) -> AsyncGenerator[Event, None]:
        """The events of one connection."""
        headers = {"Accept": "text/event-stream"}
        if parser.last_id is not None:
            headers["Last-Event-ID"] = parser.last_id
        timeout = httpx.Timeout(_SILENCE, connect=5.0)
        async with self._http.stream(
            "GET", "/v1/events/stream", params=params, headers=headers, timeout=timeout
        ) as response:
            async for line in response.aiter_lines():
                data = parser.feed(line)
                if data is not None:
                    yield parse_event(json.loads(data))
