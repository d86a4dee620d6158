# SPDX-License-Identifier: Apache-2.0
"""A certificate and a key for a server under test."""

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

DAY = datetime.timedelta(days=1)


def make_pair(directory, name="localhost", days=30, password=None):
    """A self-signed certificate for 127.0.0.1 and its key, as files."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.timezone.utc)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    names = x509.SubjectAlternativeName([x509.DNSName(name), x509.DNSName("localhost")])
    certificate = (
        x509.CertificateBuilder().subject_name(subject).issuer_name(subject)
        .public_key(key.public_key()).serial_number(x509.random_serial_number())
        .not_valid_before(now - 90 * DAY).not_valid_after(now + days * DAY)
        .add_extension(names, False).sign(key, hashes.SHA256()))
    how = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    directory.mkdir(exist_ok=True)
    paths = directory / "certificate.pem", directory / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM,
                                           serialization.PrivateFormat.PKCS8, how))
    return paths
