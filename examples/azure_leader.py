"""The leader election pattern with Azure Blob leases. Runs unchanged against tenure and Azure.

    tenure serve --azure-dev
    pip install azure-storage-blob
    python azure_leader.py http://127.0.0.1:7400

Start it several times and stop the leader: another process takes over. With a connection string in
AZURE_STORAGE_CONNECTION_STRING it uses that account.

Like the usual sample it creates the container and a page blob if they are absent, and acquires,
renews and releases the lease. It adds three safety properties. The term ends by the clock of this
process, whatever happens to a renewal. The work has stopped before the lease is released. If the
store returns an epoch, the work receives it, for receivers that check it.
"""

import os
import random
import signal
import sys
import threading
import time

from azure.core.exceptions import AzureError, HttpResponseError, ResourceNotFoundError
from azure.storage.blob import BlobLeaseClient, BlobServiceClient

LEASE = 15.0
RENEW_EVERY = 5.0
# The renew deadline, counted from the sending of the last successful renewal. The work uses the rest
# of the lease to stop.
GIVE_UP_AFTER = 10.0

DEVELOPMENT = (
    "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;"
    "AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;"
    "BlobEndpoint={url}/devstoreaccount1;"
)


def work(epoch, stop):
    """The work of the leader, until `stop` is set."""
    while not stop.wait(1.0):
        print(f"working, epoch {epoch}")


def lead(lease, began, epoch, shutdown):
    """Works and renews until the lease is lost or the process shuts down."""
    stop = threading.Event()
    worker = threading.Thread(target=work, args=(epoch, stop))
    worker.start()
    renewed = began
    while not shutdown.is_set():
        left = renewed + GIVE_UP_AFTER - time.monotonic()
        if left <= 0:
            print("lost: no renewal in time")
            break
        if shutdown.wait(min(RENEW_EVERY, left)):
            break
        sent = time.monotonic()
        try:
            lease.renew(timeout=2, connection_timeout=2, read_timeout=2, retry_total=0)
            renewed = sent
        except HttpResponseError as error:
            if error.status_code in (404, 409, 412):
                print(f"lost: {error.error_code}")
                break
        except AzureError:
            # Possibly temporary: retried until the deadline.
            pass
    stop.set()
    worker.join()


def main():
    url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:7400"
    connection = os.environ.get("AZURE_STORAGE_CONNECTION_STRING") or DEVELOPMENT.format(url=url)
    service = BlobServiceClient.from_connection_string(connection)
    container = service.get_container_client("leases")
    blob = container.get_blob_client("leader")

    shutdown = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: shutdown.set())

    while not shutdown.is_set():
        lease = BlobLeaseClient(blob)
        headers = {}
        began = time.monotonic()
        try:
            hook = lambda response: headers.update(response.http_response.headers)
            lease.acquire(int(LEASE), retry_total=0, raw_response_hook=hook)
        except ResourceNotFoundError:
            create(container, blob)
            continue
        except AzureError as error:
            if not isinstance(error, HttpResponseError):
                print(f"the store does not answer: {error}")
            shutdown.wait(random.uniform(2.0, 4.0))
            continue
        epoch = headers.get("tenure-epoch", "unknown")
        print(f"leading with epoch {epoch}")
        lead(lease, began, epoch, shutdown)
        try:
            lease.release()
        except AzureError:
            # The lease expires by itself.
            pass


def create(container, blob):
    """Creates the container and the page blob. If another process was faster, they exist and may
    already be leased, which is no error."""
    for make in (container.create_container, lambda: blob.create_page_blob(512, if_none_match="*")):
        try:
            make()
        except HttpResponseError as error:
            if error.status_code not in (409, 412):
                raise


main()
