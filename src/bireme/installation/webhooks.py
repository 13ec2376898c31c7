"""What the API server asks our webhooks about, and the authority it trusts them by.

The authority is made at install time, by `bireme manifests` or Helm, and written into the configurations
and into a Secret that the webhooks' pods mount. No running account may write a webhook configuration: who
may, reads and changes every object of the cluster.
"""

from typing import Any, Final

from bireme.api.kinds import (
    COLOSSALAI_JOB,
    GENERIC_JOB,
    KUBEFLOW_MPI_JOB,
    MPI_JOB,
    POD_GROUP,
    QUEUE,
    Kind,
)
from bireme.api.scheduler import QUEUE_LABEL, SCHEDULER_NAME
from bireme.installation.engines import ENGINE
from bireme.installation.expressions import AuthorityData, Choice, Merged, Namespace, Not, Value, text
from bireme.installation.names import WATCHED, WEBHOOKS, account_user, cluster_name
from bireme.installation.parts import Part, Tree, here, metadata
from bireme.installation.rbac import KUBEFLOW_ON, SCHEDULER_ON, WEBHOOKS_ON

DEFAULT_PATH: Final = "/default"
VALIDATE_PATH: Final = "/validate"
QUEUE_PATH: Final = "/queue"
DEFAULTING: Final = "default.bireme.dev"
VALIDATION: Final = "validate.bireme.dev"
QUEUES: Final = ".queues.bireme.dev"
"""How the names end of those that ask who may use a queue."""
JOB_QUEUES: Final = f"jobs{QUEUES}"
GROUP_QUEUES: Final = f"podgroups{QUEUES}"
POD_QUEUES: Final = f"pods{QUEUES}"
TIMEOUT_SECONDS: Final = 5
CERT_MANAGER: Final = Value("webhooks.certManager.enabled")
QUEUE_POLICY: Final = "bireme.dev/queue-failure-policy"
"""What was asked for, as an annotation: it tells a choice from a change that somebody made afterwards."""

AUTHORITY_HELM: Final = """\
{{- $authority := dict "certificates" "" "key" "" }}
{{- if and .Values.webhooks.enabled (not .Values.webhooks.certManager.enabled) }}
{{- $found := lookup "v1" "Secret" .Release.Namespace "bireme-webhooks" | default dict }}
{{- $data := get $found "data" | default dict }}
{{- if and (get $data "ca.crt") (get $data "ca.key") }}
{{- $authority = dict "certificates" (get $data "ca.crt") "key" (get $data "ca.key") }}
{{- else }}
{{- $made := genCAWithKey "bireme webhooks" 3650 (genPrivateKey "ecdsa") }}
{{- $authority = dict "certificates" (b64enc $made.Cert) "key" (b64enc $made.Key) }}
{{- end }}
{{- end }}
"""
"""Sets the variable of AuthorityData in a chart. An upgrade keeps the authority that it finds."""
_OURS: Final = (GENERIC_JOB, MPI_JOB, COLOSSALAI_JOB, QUEUE, POD_GROUP)
_QUEUED_JOB: Final = (
    "(has(object.spec.scheduler) && has(object.spec.scheduler.t9kScheduler))"
    f" || (request.kind.group == '{KUBEFLOW_MPI_JOB.group}'"
    " && ((has(object.spec.runPolicy) && has(object.spec.runPolicy.schedulingPolicy)"
    " && has(object.spec.runPolicy.schedulingPolicy.queue))"
    f" || (has(object.metadata.labels) && '{QUEUE_LABEL}' in object.metadata.labels)))"
)
_QUEUED_POD: Final = f"has(object.spec.schedulerName) && object.spec.schedulerName == '{SCHEDULER_NAME}'"
# Children of a job whose own queue was asked about; thousands of pods need not ask one by one. Templates of
# Kubeflow's jobs may name another queue in their labels, so theirs ask.
_NOT_A_CHILD: Final = (
    "!(request.userInfo.username == '%s' && has(object.metadata.ownerReferences)"
    " && object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller"
    f" && o.apiVersion == '{GENERIC_JOB.api_version}'))"
)
# Under another engine the queue that a job names is that engine's, and its own to guard.
_OUR_QUEUES: Final = text("'%s' in ['bireme', 't9k']", ENGINE)
_OF_OUR_ENGINE: Final[Tree] = {"name": "our-queues", "expression": _OUR_QUEUES}
# Jobs of another engine are no reason not to ask about what our own scheduler places beside it.
_PLACED: Final[Tree] = {"name": "our-queues", "expression": Choice(SCHEDULER_ON, "true", _OUR_QUEUES)}
_IN_THE_WATCHED: Final = Choice(WATCHED, {"matchLabels": {"kubernetes.io/metadata.name": WATCHED}}, {})


def build_webhooks() -> list[Part]:
    """Both configurations, and where their certificates are."""
    return [
        Part(_configuration("MutatingWebhookConfiguration", [_defaulting()]), (WEBHOOKS_ON,)),
        Part(
            _configuration(
                "ValidatingWebhookConfiguration",
                [_validation(), _queued_jobs(), _queued_groups(), _queued_pods()],
            ),
            (WEBHOOKS_ON,),
        ),
        Part(_secret(), (WEBHOOKS_ON, Not(CERT_MANAGER))),
        Part(_certificate(), (WEBHOOKS_ON, CERT_MANAGER)),
    ]


def _configuration(kind: str, webhooks: list[Tree]) -> Tree:
    injected = {"cert-manager.io/inject-ca-from": text(f"%s/{WEBHOOKS}", Namespace())}
    told = {QUEUE_POLICY: Value("webhooks.queueFailurePolicy")}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": metadata(
            cluster_name(WEBHOOKS), "webhooks", annotations=Merged(told, Choice(CERT_MANAGER, injected, {}))
        ),
        "webhooks": webhooks,
    }


def _defaulting() -> Tree:
    return {**_webhook(DEFAULTING, DEFAULT_PATH, _all_kinds()), "reinvocationPolicy": "IfNeeded"}


def _validation() -> Tree:
    return _webhook(VALIDATION, VALIDATE_PATH, _all_kinds())


def _queued_jobs() -> Tree:
    ours = [_rule(GENERIC_JOB, MPI_JOB, COLOSSALAI_JOB)]
    rules = Choice(KUBEFLOW_ON, [*ours, _rule(KUBEFLOW_MPI_JOB)], ours)
    conditions = [_OF_OUR_ENGINE, {"name": "queued", "expression": _QUEUED_JOB}]
    return _queue_webhook(JOB_QUEUES, rules, conditions)


def _queued_groups() -> Tree:
    return _placed(_queue_webhook(GROUP_QUEUES, [_rule(POD_GROUP)], [_PLACED, _not_a_child()]))


def _queued_pods() -> Tree:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        # A pod that runs may grow, or get a container, by these.
        "resources": ["pods", "pods/resize", "pods/ephemeralcontainers"],
        "operations": ["CREATE", "UPDATE"],
        "scope": "Namespaced",
    }
    conditions = [_PLACED, {"name": "queued", "expression": _QUEUED_POD}, _not_a_child()]
    return _placed(_queue_webhook(POD_QUEUES, [rule], conditions))


def _placed(webhook: Tree) -> Tree:
    """Asked in all namespaces where our scheduler runs: it places every pod that names it."""
    return {**webhook, "namespaceSelector": Choice(SCHEDULER_ON, {}, _IN_THE_WATCHED)}


def _not_a_child() -> Tree:
    return {"name": "not-a-child", "expression": text(_NOT_A_CHILD, account_user(Namespace()))}


def _all_kinds() -> Choice:
    rules = [_rule(*_OURS[:3]), _rule(*_OURS[3:])]
    return Choice(KUBEFLOW_ON, [*rules, _rule(KUBEFLOW_MPI_JOB)], rules)


def _rule(*kinds: Kind) -> Tree:
    """Kinds of one group and version. Statuses are not listed: only the controller writes them."""
    return {
        "apiGroups": [kinds[0].group],
        "apiVersions": [kinds[0].version],
        "resources": [kind.plural for kind in kinds],
        "operations": ["CREATE", "UPDATE"],
        "scope": "*",
    }


def _queue_webhook(name: str, rules: Any, conditions: list[Tree]) -> Tree:
    return {
        **_webhook(name, QUEUE_PATH, rules),
        "failurePolicy": Value("webhooks.queueFailurePolicy"),
        "matchConditions": conditions,
    }


def _webhook(name: str, path: str, rules: Any) -> Tree:
    service = {"service": {"name": WEBHOOKS, "namespace": Namespace(), "path": path, "port": 443}}
    trusted = {**service, "caBundle": AuthorityData("certificates")}
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
        "failurePolicy": Value("webhooks.failurePolicy"),
        "matchPolicy": "Equivalent",
        "namespaceSelector": _IN_THE_WATCHED,
        "rules": rules,
        # cert-manager puts its authority in itself.
        "clientConfig": Choice(CERT_MANAGER, service, trusted),
    }


def _secret() -> Tree:
    """The authority, with its key: the webhooks' pods mount it, and sign their certificates by it."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": here(WEBHOOKS, "webhooks"),
        "type": "Opaque",
        "data": {"ca.crt": AuthorityData("certificates"), "ca.key": AuthorityData("key")},
    }


def _certificate() -> Tree:
    return {
        "apiVersion": "cert-manager.io/v1",
        "kind": "Certificate",
        "metadata": here(WEBHOOKS, "webhooks"),
        "spec": {
            "secretName": WEBHOOKS,
            # As our own are; any other kind is served as well.
            "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
            "dnsNames": [text(f"{WEBHOOKS}.%s.svc", Namespace())],
            "issuerRef": {
                "kind": Value("webhooks.certManager.issuerKind"),
                "name": Value("webhooks.certManager.issuerName"),
            },
        },
    }
