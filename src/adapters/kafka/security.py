"""How a client comes to the brokers: addresses, encryption, name and password."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Literal, TypedDict

from attrs import field, frozen

from ...application.ports.errors import Misconfigured

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


class ConnectionArguments(TypedDict):
    """What aiokafka's clients and its single connections take alike."""

    security_protocol: SecurityProtocol
    ssl_context: ssl.SSLContext | None
    sasl_mechanism: SaslMechanism
    sasl_plain_username: str | None
    sasl_plain_password: str | None


@frozen(kw_only=True)
class KafkaSecurity:
    """``bootstrap_servers`` are ``host:port``, separated by commas; the password does not show itself.

    ``ca_file`` holds the certificates of the authorities to trust, None stands for those that the system trusts.
    A mechanism, a name and a password belong to the protocols with ``SASL`` and to no other.
    """

    bootstrap_servers: str
    security_protocol: SecurityProtocol = "PLAINTEXT"
    sasl_mechanism: SaslMechanism | None = None
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    ca_file: Path | None = None

    def connection_arguments(self) -> ConnectionArguments:
        """These settings for aiokafka, without the addresses. Reads the files of certificates.

        Raises:
            Misconfigured: the file of certificates cannot be used.
        """
        return ConnectionArguments(
            security_protocol=self.security_protocol,
            ssl_context=self._ssl_context(),
            sasl_mechanism=self.sasl_mechanism or "PLAIN",
            sasl_plain_username=self.sasl_username,
            sasl_plain_password=self.sasl_password,
        )

    def _ssl_context(self) -> ssl.SSLContext | None:
        if self.security_protocol not in ("SSL", "SASL_SSL"):
            return None
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:  # among them ssl.SSLError, for what is no certificate
            raise Misconfigured(
                "CA_FILE_UNUSABLE", "the file of certificates to trust Kafka by cannot be read as such"
            ) from error
