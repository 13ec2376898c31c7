"""ServiceAccounts: who a pod is. There are no tokens."""

from bireme.apiserver.rules import Object, Rules


class ServiceAccountRules(Rules):
    """The rules of ServiceAccounts: of the secrets that they name, only the names count."""

    def prepare_create(self, new: Object) -> None:
        if secrets := new.get("secrets"):
            new["secrets"] = [{"name": each["name"]} if each.get("name") else {} for each in secrets]

    def prepare_update(self, new: Object, old: Object) -> None:  # noqa: ARG002
        self.prepare_create(new)
