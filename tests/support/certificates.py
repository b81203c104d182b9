"""Certificates for the loopback address."""

import ssl
import subprocess
from pathlib import Path
from typing import NamedTuple


class Pair(NamedTuple):
    """The files of a certificate and its private key."""

    certificate: Path
    key: Path

    def options(self) -> list[str]:
        """Return the options of a service with this certificate."""
        return ["--tls-certificate", str(self.certificate), "--tls-key", str(self.key)]

    def trusted(self) -> ssl.SSLContext:
        """Return the context of a client that trusts this certificate."""
        return ssl.create_default_context(cafile=self.certificate)


def make_pair(folder: Path, name: str = "tls", *, passphrase: bool = False) -> Pair:
    """Make a self-signed certificate for the loopback address."""
    pair = Pair(folder / f"{name}.crt", folder / f"{name}.key")
    encrypted = ["-passout", "pass:secret"] if passphrase else ["-noenc"]
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += [*encrypted, "-keyout", str(pair.key), "-out", str(pair.certificate), "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    return pair
