# syntax=docker/dockerfile:1
# One image for every process: gpulease-server api | worker | inventory | migrate.
# Any base that has Python 3.11 or newer as `python`, with its module venv.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
RUN python -m venv /opt/gpulease
# dependencies first: they change less often than the code
COPY requirements.lock ./
RUN /opt/gpulease/bin/pip install --require-hashes --only-binary :all: -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY app app
COPY workers workers
COPY migrations migrations
COPY dashboard dashboard
RUN /opt/gpulease/bin/pip install --no-deps --no-build-isolation . \
    && /opt/gpulease/bin/pip uninstall --yes setuptools pip

FROM ${BASE}
ENV PATH=/opt/gpulease/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    GPULEASE_HOST=0.0.0.0
COPY --from=build /opt/gpulease /opt/gpulease
# numeric, so that Kubernetes can check that it is not root; nothing is written, the root may be read-only
USER 10001:10001
WORKDIR /tmp
EXPOSE 8000
STOPSIGNAL SIGTERM
ENTRYPOINT ["gpulease-server"]
CMD ["api"]
