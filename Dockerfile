ARG BASE=python:3.12-slim

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY requirements.lock requirements-runtime.lock ./
RUN python3 -m venv /opt/sinksweep \
 && /opt/sinksweep/bin/pip install --require-hashes -r requirements-runtime.lock
# The builder is pinned by the same lock and stays out of the image that runs.
RUN python3 -m venv /opt/builder \
 && awk '/^[^ #]/ { wanted = /^setuptools==/ } wanted' requirements.lock > builder.lock \
 && /opt/builder/bin/pip install --require-hashes -r builder.lock
COPY pyproject.toml LICENSE ./
COPY app app
COPY migrations migrations
RUN /opt/builder/bin/pip wheel --no-index --no-deps --no-build-isolation --wheel-dir /dist . \
 && /opt/sinksweep/bin/pip install --no-index --no-deps /dist/*.whl \
 && /opt/sinksweep/bin/pip uninstall --yes pip

FROM ${BASE}
RUN groupadd --gid 10001 sinksweep \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent \
    --shell /usr/sbin/nologin sinksweep
COPY --from=build /opt/sinksweep /opt/sinksweep
# Bytecode is compiled above: the root file system may be read-only.
ENV PATH=/opt/sinksweep/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    SINKSWEEP_HOST=0.0.0.0 SINKSWEEP_PORT=8080
USER 10001:10001
WORKDIR /opt/sinksweep
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
  CMD ["python3", "-c", "import os, urllib.request as u; u.build_opener(u.ProxyHandler({})).open('http://127.0.0.1:' + os.environ['SINKSWEEP_PORT'] + '/livez', timeout=2)"]
CMD ["sinksweep", "serve"]
