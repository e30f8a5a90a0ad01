"""Certificates for a test, made by the openssl program: an authority, and what it has signed for a host."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tenure.testing.ports import Ports
from tenure.testing.server import RedisServer

OPENSSL = shutil.which("openssl")


@dataclass(frozen=True)
class Certificate:
    cert: Path
    key: Path

    def options(self, authority: Path) -> tuple[str, ...]:
        """What a server needs that shows this certificate. `authority`: that of the certificates that it trusts."""
        named = ("--tls-cert-file", self.cert, "--tls-key-file", self.key, "--tls-ca-cert-file", authority)
        return tuple(map(str, named))


class Authority:
    """A certificate authority that only this test trusts. Its files lie in the folder, under its name."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self.own = self._files(name)
        uses = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")  # without which Python 3.13 trusts no authority
        _openssl("req", "-x509", *_NEW, "-days", "2", "-subj", f"/CN={name}", *uses, *_out(self.own))

    def sign(self, name: str, alternative: str) -> Certificate:
        """A certificate for `alternative`, as in `IP:127.0.0.1` or `DNS:redis.example.org`."""
        made, request = self._files(name), self._folder / f"{name}.csr"
        _openssl("req", *_NEW, "-subj", f"/CN={name}", "-keyout", str(made.key), "-out", str(request))
        extensions = self._folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={alternative}\n")
        signed = ["-CA", str(self.own.cert), "-CAkey", str(self.own.key), "-CAcreateserial"]
        _openssl(
            "x509",
            "-req",
            "-in",
            str(request),
            *signed,
            "-days",
            "2",
            "-extfile",
            str(extensions),
            "-out",
            str(made.cert),
        )
        return made

    def _files(self, name: str) -> Certificate:
        return Certificate(self._folder / f"{name}.crt", self._folder / f"{name}.key")


def has_tls(binary: str, files: tuple[str, ...]) -> bool:
    """Whether a server program was built with TLS. `files`: the options that name its certificate."""
    ports = Ports()
    probe = RedisServer(binary, aof=False, args=["--tls-port", str(ports.take()), *files])
    try:
        probe.start()
    except AssertionError as error:
        if "Bad directive" not in str(error) and "Failed finding TLS support" not in str(error):
            raise  # it knows TLS, and did not start for another reason
        return False
    finally:
        probe.close()
        ports.close()
    return True


_NEW = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _out(made: Certificate) -> tuple[str, ...]:
    return ("-keyout", str(made.key), "-out", str(made.cert))


def _openssl(*args: str) -> None:
    assert OPENSSL is not None
    subprocess.run([OPENSSL, *args], check=True, capture_output=True, timeout=60)
