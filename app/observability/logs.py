"""Structured logs: one JSON object per line, or a line for people on a terminal, with the context bound to it."""

import logging
import sys
from typing import TextIO

import structlog
from structlog.typing import Processor

_NOISY = ("botocore", "boto3", "urllib3", "kombu", "celery", "amqp", "httpx", "httpcore")

_TRACEBACK = structlog.processors.format_exc_info
"""Not for people: the console's own renderer prints tracebacks."""
_SHARED: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    _TRACEBACK,
)


def configure_logs(level: str, stream: TextIO = sys.stdout) -> None:
    """`level` is DEBUG, INFO, WARNING or ERROR. Called once, at the start of a process.

    A terminal gets lines for people; files and pipes get JSON. Our own lines go straight to the stream; the standard library's logging (of libraries) is brought into the same form,
    and so are Python's warnings.
    """
    on_terminal = stream.isatty()
    renderer: Processor = structlog.dev.ConsoleRenderer() if on_terminal else structlog.processors.JSONRenderer()
    shared = [processor for processor in _SHARED if not (on_terminal and processor is _TRACEBACK)]
    number = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(number)
    logging.captureWarnings(capture=True)
    for name in _NOISY:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))
