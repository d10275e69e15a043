# The agent in a container: `make image`. Nothing is fetched but the locked, hash-checked dependencies.
# Any image with Python 3.11 or newer and its venv module will do as the base.
ARG BASE_IMAGE=python:3.11-slim

FROM ${BASE_IMAGE} AS build
WORKDIR /src
RUN python3 -m venv /opt/slo-agent
COPY requirements.lock requirements-build.lock ./
RUN /opt/slo-agent/bin/python -m pip install --quiet --no-cache-dir --no-compile --disable-pip-version-check \
      --require-hashes -r requirements.lock -r requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY agent agent
COPY probes probes
COPY rules rules
RUN /opt/slo-agent/bin/python -m pip install --quiet --no-cache-dir --no-compile --disable-pip-version-check \
      --no-deps --no-build-isolation . \
 && /opt/slo-agent/bin/python -m pip uninstall --quiet --yes setuptools pip

FROM ${BASE_IMAGE}
COPY --from=build /opt/slo-agent /opt/slo-agent
COPY deploy/container.yaml /etc/slo-agent/agent.yaml
ENV PATH=/opt/slo-agent/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/tmp \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
# Nobody in particular: no name, no home, no rights. /tmp is all that is written to, and only by `demo`.
USER 65532:65532
WORKDIR /tmp
EXPOSE 9470
ENTRYPOINT ["slo-agent"]
CMD ["run", "-c", "/etc/slo-agent/agent.yaml"]
