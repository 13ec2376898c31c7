"""The slices of Kubernetes' object metadata that we read."""

from datetime import datetime
from typing import Annotated

import msgspec

from bireme.api.model import Model, field


class OwnerReference(Model, frozen=True, gc=False):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Model, frozen=True, gc=False):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class ListMeta(Model, frozen=True):
    resource_version: str = ""
    # `continue` is a Python keyword, so this one is named by hand.
    continue_: str = msgspec.field(default="", name="continue")


class Condition(Model, frozen=True, omit_defaults=False, gc=False):
    """An observation of an object, as Kubernetes writes them."""

    type: Annotated[str, field("What is observed.", required=True)]
    status: Annotated[
        str, field("True, False or Unknown.", required=True, enum=["True", "False", "Unknown"])
    ] = "Unknown"
    reason: Annotated[str, field("One word, made for programs, why the status is what it is.")] = ""
    message: Annotated[str, field("A sentence, made for people, with the details.")] = ""
    last_transition_time: Annotated[
        datetime | None, field("When the status last changed; moves with nothing else.")
    ] = None
