# The image of controller, webhooks and scheduler; launchers of Kubeflow's MPIJobs take kubectl from it.
#
#   docker build -t registry.example/bireme:0.1.0 .
#
# Behind a mirror, or without a network, name others: --build-arg PYTHON=… KUBECTL=…, and for packages pip's own
# PIP_INDEX_URL, or PIP_NO_INDEX=1 and PIP_FIND_LINKS=FOLDER with that folder mounted (podman build --volume).
#
# Runs as nobody in particular, on a read-only root file system; only /tmp is written to.
ARG PYTHON=python:3.11-slim
ARG KUBECTL=registry.k8s.io/kubectl:v1.36.3

FROM ${KUBECTL} AS kubectl

FROM ${PYTHON} AS build
ARG PIP_INDEX_URL
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS
WORKDIR /src
COPY requirements.lock ./
# Every file is checked against its hash; what only development needs stays in this stage.
RUN pip download --quiet --require-hashes --dest /wheels --requirement requirements.lock
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY src ./src
RUN python -m venv /opt/bireme \
    && /opt/bireme/bin/pip install --quiet --no-index --find-links /wheels hatchling \
    && /opt/bireme/bin/pip wheel --quiet --no-index --find-links /wheels --no-build-isolation --no-deps --wheel-dir /wheels . \
    && python -m venv --clear /opt/bireme \
    && /opt/bireme/bin/pip install --quiet --no-index --find-links /wheels bireme \
    && /opt/bireme/bin/pip uninstall --quiet --yes pip setuptools

FROM ${PYTHON}
COPY --from=kubectl /bin/kubectl /usr/local/bin/kubectl
COPY --from=build /opt/bireme /opt/bireme
ENV PATH=/opt/bireme/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["bireme"]
CMD ["controller"]
