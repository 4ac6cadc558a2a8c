"""secure.py URL CERTIFICATE: the pattern over TLS, by key, token, and a signature for https only."""

import base64
import json
import sys
import time
from datetime import datetime, timedelta, timezone

from azure.core.credentials import AccessToken
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import (
    AccountSasPermissions,
    BlobLeaseClient,
    BlobServiceClient,
    ResourceTypes,
    generate_account_sas,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
SECRET = b"0123456789abcdef0123456789abcdef"

url, certificate = sys.argv[1:]


class Signer:
    """A credential that signs its own tokens, as an issuer would."""

    def __init__(self, secret):
        self.key = Ed25519PrivateKey.from_private_bytes(secret)

    def get_token(self, *scopes, **options):
        assert scopes == ("https://storage.azure.com/.default",), scopes
        expiry = int(time.time()) + 600
        claims = {
            "iss": "https://issuer",
            "aud": "https://storage.azure.com",
            "sub": "app",
            "exp": expiry,
        }
        encode = lambda data: base64.urlsafe_b64encode(data).rstrip(b"=")
        parts = [{"alg": "EdDSA", "typ": "JWT"}, claims]
        text = b".".join(encode(json.dumps(part).encode()) for part in parts)
        signature = self.key.sign(text)
        return AccessToken((text + b"." + encode(signature)).decode(), expiry)


def service(credential):
    return BlobServiceClient(
        f"{url}/{ACCOUNT}", credential=credential, connection_verify=certificate, retry_total=0
    )


sas = generate_account_sas(
    ACCOUNT,
    KEY,
    ResourceTypes(service=True, container=True, object=True),
    AccountSasPermissions(read=True, write=True, delete=True, list=True, create=True),
    expiry=datetime.now(timezone.utc) + timedelta(hours=1),
    protocol="https",
    ip="127.0.0.1",
)
for number, credential in enumerate((KEY, Signer(SECRET), sas)):
    container = service(credential).get_container_client(f"secure-{number}")
    container.create_container()
    blob = container.get_blob_client("leader")
    blob.create_page_blob(512, if_none_match="*")
    lease = BlobLeaseClient(blob)
    lease.acquire(15)
    lease.renew()
    lease.release()
    names = [found.name for found in service(credential).list_containers()]
    assert f"secure-{number}" in names, names

try:
    service(Signer(b"another secret, another secret.."))\
        .get_container_client("secure-0").get_container_properties()
    raise SystemExit("a token of another signer was accepted")
except HttpResponseError as error:
    assert error.status_code == 403, error
