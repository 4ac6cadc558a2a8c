"""killed.py URL acquire | go-on: a holder whose store is killed in between."""

import sys

from azure.core.exceptions import ResourceExistsError
from azure.storage.blob import BlobLeaseClient, BlobServiceClient

KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
MINE = "6f1c9a64-3a52-4c0e-9d43-0d7f5b1f2a0a"
OTHER = "6f1c9a64-3a52-4c0e-9d43-0d7f5b1f2a0b"

url, step = sys.argv[1:]
service = BlobServiceClient(f"{url}/devstoreaccount1", credential=KEY)
container = service.get_container_client("killed")
blob = container.get_blob_client("leader")
if step == "acquire":
    container.create_container()
    blob.upload_blob(b"body", metadata={"of": "me"})
    BlobLeaseClient(blob, lease_id=MINE).acquire(60)
else:
    # The acknowledged body and lease exist, and no other client gets the lease.
    assert blob.download_blob().readall() == b"body"
    assert blob.get_blob_properties().metadata == {"of": "me"}
    try:
        BlobLeaseClient(blob, lease_id=OTHER).acquire(60)
        raise SystemExit("two clients hold the lease")
    except ResourceExistsError as error:
        assert error.error_code == "LeaseAlreadyPresent", error
    BlobLeaseClient(blob, lease_id=MINE).renew()
