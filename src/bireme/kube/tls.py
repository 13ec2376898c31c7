"""TLS as kubectl does it: the cluster's authority, and a client certificate that may change."""

import ssl
import tempfile
from pathlib import Path

from bireme.kube.config import ClusterConfig
from bireme.kube.credentials import Credential
from bireme.kube.errors import ConfigError


def build_context(config: ClusterConfig, credential: Credential) -> ssl.SSLContext:
    """The context for connections that present this credential's certificate. Raises ConfigError."""
    # Comments between certificates may be in any encoding.
    authority = config.ca_data.decode("ascii", errors="ignore")
    try:
        context = ssl.create_default_context(cadata=authority or None)
    except ssl.SSLError as error:
        raise ConfigError(f"{config.source}: certificate-authority: no PEM certificates: {error}") from error
    if config.ca_data and not context.cert_store_stats()["x509"]:
        raise ConfigError(f"{config.source}: certificate-authority: no PEM certificates")
    # Go trusts an intermediate that is named as authority, and asks for no extensions that clusters' own
    # authorities often lack.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if config.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if credential.certificate:
        _load(context, config, credential)
    return context


def _load(context: ssl.SSLContext, config: ClusterConfig, credential: Credential) -> None:
    # OpenSSL's bindings read certificates from files only; the folder is ours alone, and gone at once.
    with tempfile.TemporaryDirectory(prefix="bireme-") as folder:
        certificate, key = Path(folder) / "tls.crt", Path(folder) / "tls.key"
        certificate.write_bytes(credential.certificate)
        key.write_bytes(credential.key)
        try:
            # Without a password here, OpenSSL would ask the terminal for that of an encrypted key.
            context.load_cert_chain(certificate, key, password="")
        except (ssl.SSLError, OSError) as error:
            problem = f"client-certificate and client-key are no matching pair of PEM: {error}"
            raise ConfigError(f"{config.source}: {problem}") from error
