"""Structured logs: one JSON object per line, with the context bound to it."""

import logging
import sys
from typing import TextIO

import structlog
from structlog.typing import Processor

_NOISY = ("botocore", "boto3", "urllib3", "kombu", "celery", "amqp", "httpx", "httpcore")

_SHARED: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
)


def configure_logs(level: str, stream: TextIO = sys.stdout) -> None:
    """`level` is DEBUG, INFO, WARNING or ERROR. Called once, at the start of a process.

    Our own lines go straight to the stream; the standard library's logging (of libraries) is brought into the same form,
    and so are Python's warnings.
    """
    number = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
    structlog.configure(
        processors=[*_SHARED, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *_SHARED],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(number)
    logging.captureWarnings(capture=True)
    for name in _NOISY:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))
