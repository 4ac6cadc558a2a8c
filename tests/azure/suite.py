"""Every cell of the state tables of Azure Blob leases, by the official SDK, against the store.

suite.py URL [KNOWN]

URL is http://HOST:PORT of a store, or an emulator, with the development account. Each failed check
prints one line; the last line has the totals. The file KNOWN has the names of checks that may fail,
one per line. The suite waits for all leases to expire at once, so it takes about 20 s.
"""

import hashlib
import http.client
import sys
import threading
import time
import uuid
from datetime import datetime, timedelta, timezone

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import (
    AccountSasPermissions,
    BlobClient,
    BlobLeaseClient,
    BlobSasPermissions,
    BlobServiceClient,
    ContainerClient,
    ContainerSasPermissions,
    ContentSettings,
    ResourceTypes,
    generate_account_sas,
    generate_blob_sas,
    generate_container_sas,
)

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
A = "6f1c9a64-3a52-4c0e-9d43-0d7f5b1f2a0a"
B = "6f1c9a64-3a52-4c0e-9d43-0d7f5b1f2a0b"
C = "6f1c9a64-3a52-4c0e-9d43-0d7f5b1f2a0c"
STATES = ["available", "fixed", "infinite", "breaking", "broken", "expired"]

known = set()
failures = []
differences = []
checks = 0
lock = threading.Lock()


def check(what, found, *expected):
    """Checks that the result is one of the expected ones."""
    global checks
    with lock:
        checks += 1
        if found not in expected:
            is_known = what in known
            (differences if is_known else failures).append(what)
            how = f"{what}: {found!r}, expected {' or '.join(map(repr, expected))}"
            print("DIFFERS" if is_known else "FAILED", how, flush=True)


def outcome(call):
    """(status, code) of a call; code is None if it succeeds."""
    seen = []
    try:
        call(lambda response: seen.append(response.http_response.status_code))
    except HttpResponseError as error:
        return refused(error)
    return seen[-1], None


def refused(error):
    return error.status_code, getattr(error.error_code, "value", error.error_code)


def service(url, credential=KEY, **options):
    return BlobServiceClient(f"{url}/{ACCOUNT}", credential=credential, retry_total=0, **options)


class Thing:
    """A blob or a container with a lease in one of the states; operations on it by lease id."""

    def __init__(self, kind, container, url):
        self.kind = kind
        self.container = container
        self.of_service = service(url)
        name = f"x-{uuid.uuid4().hex}"
        if kind == "blob":
            self.client = container.get_blob_client(name)
            self.client.upload_blob(b"one")
        else:
            self.client = self.of_service.get_container_client(name)
            self.client.create_container()

    def lease(self, lease_id=None):
        return BlobLeaseClient(self.client, lease_id=lease_id)

    def bring_to(self, state):
        if state == "available":
            return
        self.lease(A).acquire(-1 if state == "infinite" else 15)
        if state == "breaking":
            self.lease(A).break_lease(60)
        if state == "broken":
            self.lease(A).break_lease(0)

    def properties(self, **options):
        if self.kind == "blob":
            return self.client.get_blob_properties(**options).lease
        return self.client.get_container_properties(**options).lease

    def state(self):
        return self.properties().state

    def acquire(self, lease_id, duration=15):
        return outcome(lambda hook: self.lease(lease_id).acquire(duration, raw_response_hook=hook))

    def renew(self, lease_id):
        return outcome(lambda hook: self.lease(lease_id).renew(raw_response_hook=hook))

    def change(self, lease_id, proposed):
        return outcome(lambda hook: self.lease(lease_id).change(proposed, raw_response_hook=hook))

    def release(self, lease_id):
        return outcome(lambda hook: self.lease(lease_id).release(raw_response_hook=hook))

    def break_lease(self, period=None):
        return outcome(lambda hook: self.lease(A).break_lease(period, raw_response_hook=hook))

    def left(self, period=None):
        return self.lease(A).break_lease(period)

    def write(self, lease_id=None):
        options = {"lease": lease_id} if lease_id else {}
        return outcome(
            lambda hook: self.client.upload_blob(b"two", overwrite=True, raw_response_hook=hook, **options)
        )

    def read(self, lease_id=None):
        options = {"lease": lease_id} if lease_id else {}
        if self.kind == "blob":
            call = self.client.get_blob_properties
        else:
            call = self.client.get_container_properties
        return outcome(lambda hook: call(raw_response_hook=hook, **options))

    def delete(self, lease_id=None):
        options = {"lease": lease_id} if lease_id else {}
        if self.kind == "blob":
            call = self.client.delete_blob
        else:
            call = self.client.delete_container
        return outcome(lambda hook: call(raw_response_hook=hook, **options))


PRESENT = (409, "LeaseAlreadyPresent")
ABSENT = (409, "LeaseNotPresentWithLeaseOperation")
MISMATCH = (409, "LeaseIdMismatchWithLeaseOperation")
CANT_ACQUIRE = (409, "LeaseIsBreakingAndCannotBeAcquired")
CANT_CHANGE = (409, "LeaseIsBreakingAndCannotBeChanged")
CANT_RENEW = (409, "LeaseIsBrokenAndCannotBeRenewed")
OK = (200, None)
CREATED = (201, None)
ACCEPTED = (202, None)

# Operation: per state, the result and the state afterwards (None: unchanged).
#   available, fixed, infinite, breaking, broken, expired
LEASE_TABLE = {
    "acquire, no id": (
        lambda t: t.acquire(None),
        [(CREATED, "leased"), (PRESENT, None), (PRESENT, None), (PRESENT, None), (CREATED, "leased"), (CREATED, "leased")],
    ),
    "acquire A": (
        lambda t: t.acquire(A),
        [(CREATED, "leased"), (CREATED, "leased"), (CREATED, "leased"), (CANT_ACQUIRE, None), (CREATED, "leased"), (CREATED, "leased")],
    ),
    "acquire B": (
        lambda t: t.acquire(B),
        [(CREATED, "leased"), (PRESENT, None), (PRESENT, None), (PRESENT, None), (CREATED, "leased"), (CREATED, "leased")],
    ),
    "break": (
        lambda t: t.break_lease(),
        [(ABSENT, None), (ACCEPTED, "breaking"), (ACCEPTED, "broken"), (ACCEPTED, None), (ACCEPTED, None), (ACCEPTED, "broken")],
    ),
    "break 0": (
        lambda t: t.break_lease(0),
        [(ABSENT, None), (ACCEPTED, "broken"), (ACCEPTED, "broken"), (ACCEPTED, "broken"), (ACCEPTED, None), (ACCEPTED, "broken")],
    ),
    "break 20": (
        lambda t: t.break_lease(20),
        [(ABSENT, None), (ACCEPTED, "breaking"), (ACCEPTED, "breaking"), (ACCEPTED, None), (ACCEPTED, None), (ACCEPTED, "broken")],
    ),
    "change A to B": (
        lambda t: t.change(A, B),
        [(ABSENT, None), (OK, "leased"), (OK, "leased"), (CANT_CHANGE, None), (ABSENT, None), (ABSENT, None)],
    ),
    "change B to A": (
        lambda t: t.change(B, A),
        [(ABSENT, None), (OK, "leased"), (OK, "leased"), (MISMATCH, None), (ABSENT, None), (ABSENT, None)],
    ),
    "change B to C": (
        lambda t: t.change(B, C),
        [(ABSENT, None), (MISMATCH, None), (MISMATCH, None), (MISMATCH, None), (ABSENT, None), (ABSENT, None)],
    ),
    "renew A": (
        lambda t: t.renew(A),
        [(MISMATCH, None), (OK, "leased"), (OK, "leased"), (CANT_RENEW, None), (CANT_RENEW, None), (OK, "leased")],
    ),
    "renew B": (
        lambda t: t.renew(B),
        [(MISMATCH, None)] * 6,
    ),
    "release A": (
        lambda t: t.release(A),
        [(MISMATCH, None), (OK, "available"), (OK, "available"), (OK, "available"), (OK, "available"), (OK, "available")],
    ),
    "release B": (
        lambda t: t.release(B),
        [(MISMATCH, None)] * 6,
    ),
}


def usage_table(on, done):
    """The result of an access with A, with B and without an id, per state."""
    absent = [(412, f"LeaseNotPresentWith{on}Operation")]
    mismatch = [(412, f"LeaseIdMismatchWith{on}Operation")]
    missing = [(412, "LeaseIdMissing")]
    lost = [(412, "LeaseLost"), *absent]
    right = [(done, None)]
    return {
        "A": [absent, right, right, right, lost, lost],
        "B": [absent, mismatch, mismatch, mismatch, lost, lost],
        None: [right, missing, missing, missing, right, right],
    }


def shown(state):
    return "leased" if state in ("fixed", "infinite") else state


def prepared(kind, container, url):
    """Every cell as a blob or container in its state, and the operation. Leases expire together."""
    cells = []
    for name, (operate, outcomes) in LEASE_TABLE.items():
        for state, (expected, then) in zip(STATES, outcomes):
            cells.append((f"{kind}: {name} on {state}", state, operate, [expected], then or shown(state)))
    ids = {"A": A, "B": B, None: None}
    uses = []
    if kind == "blob":
        # A change of an ended lease's blob makes the lease available.
        cleared = lambda state, given: "available" if given is None and state in ("broken", "expired") else shown(state)
        uses.append(("write", lambda t, i: t.write(i), usage_table("Blob", 201), cleared))
        uses.append(("delete", lambda t, i: t.delete(i), usage_table("Blob", 202), None))
        uses.append(("read", lambda t, i: t.read(i), usage_table("Blob", 200), lambda state, given: shown(state)))
    else:
        uses.append(("delete", lambda t, i: t.delete(i), usage_table("Container", 202), None))
        uses.append(("read", lambda t, i: t.read(i), usage_table("Container", 200), lambda state, given: shown(state)))
    for use, do, table, then in uses:
        for given, outcomes in table.items():
            for state, expected in zip(STATES, outcomes):
                if use == "read" and given is None:
                    expected = [OK]
                gone = then is None and expected[0][1] is None
                after = None if gone else (then(state, given) if then else shown(state))
                cells.append(
                    (
                        f"{kind}: {use} with {given} on {state}",
                        state,
                        lambda t, do=do, given=given: do(t, ids[given]),
                        expected,
                        after,
                    )
                )
    things = []
    for what, state, operate, expected, after in cells:
        thing = Thing(kind, container, url)
        if state == "expired":
            thing.lease(A).acquire(15)
        things.append((thing, what, state, operate, expected, after))
    return things


def run_cells(things):
    for thing, what, state, operate, expected, after in things:
        if state != "expired":
            thing.bring_to(state)
        elif thing.state() != "expired":
            check(f"{what}: the lease", thing.state(), "expired")
        check(what, operate(thing), *expected)
        if after is None:
            check(f"{what}: afterwards", outcome(lambda hook: thing.properties(raw_response_hook=hook))[0], 404)
        else:
            check(f"{what}: afterwards", thing.state(), after)


def details(container, url):
    """Details beyond the tables."""
    t = Thing("blob", container, url)
    before = t.client.get_blob_properties()
    lease = t.lease(A)
    lease.acquire(60)
    during = t.client.get_blob_properties()
    check("a lease changes no ETag", during.etag, before.etag)
    check("a lease does not change the date", during.last_modified, before.last_modified)
    check("state", (during.lease.state, during.lease.status, during.lease.duration), ("leased", "locked", "fixed"))
    lease.change(B)
    check("the client's id follows a change", lease.id, B)
    check("remaining time of a lease that is broken at once", t.left(0), 0)
    t.lease(A).acquire(-1)
    during = t.client.get_blob_properties()
    check("infinite", (during.lease.state, during.lease.duration), ("leased", "infinite"))
    check("remaining time of a broken infinite lease", t.left(40), 40)
    check("a break may shorten the time", t.left(10), 9, 10)
    check("a break never lengthens", t.left(50), 9, 10)
    check("breaking", (t.properties().status, t.properties().duration), ("locked", None))

    t = Thing("blob", container, url)
    t.lease(A).acquire(20)
    check("the time left", t.left(), 19, 20)

    # Ids are compared as GUIDs.
    t = Thing("blob", container, url)
    t.lease(A).acquire(15)
    for spelling in (A.upper(), A.replace("-", ""), "{" + A + "}", "(" + A + ")"):
        check(f"spelling {spelling}", t.renew(spelling), OK)
    for bad in ("x", A[:-1], "0" * 32):
        check(f"bad id {bad!r}", outcome(lambda hook: t.lease(bad).acquire(15, raw_response_hook=hook))[0], 400)

    # Invalid numbers.
    for duration in (0, 1, 14, 61, -2, 1000):
        check(f"duration {duration}", t.acquire(A, duration), (400, "InvalidHeaderValue"))
    for period in (-1, 61):
        check(f"break period {period}", t.break_lease(period), (400, "InvalidHeaderValue"))
    for duration in (15, 60, -1):
        check(f"duration {duration}", t.acquire(A, duration), CREATED)
    check("change and renew keep the duration", t.properties().duration, "infinite")

    # Absent blobs and containers.
    t = Thing("blob", container, url)
    t.client.delete_blob()
    for what, found in {
        "acquire": t.acquire(A), "renew": t.renew(A), "change": t.change(A, B), "release": t.release(A), "break": t.break_lease(),
    }.items():
        check(f"{what} of an absent blob", found, (404, "BlobNotFound"))
    check("put with an id of an absent blob", t.write(A), (412, "LeaseNotPresentWithBlobOperation"))
    gone = Thing("container", container, url)
    gone.client.delete_container()
    check("acquire of no container", gone.acquire(A), (404, "ContainerNotFound"))
    nowhere = gone.client.get_blob_client("x")
    check("put into no container", outcome(lambda hook: nowhere.upload_blob(b"", raw_response_hook=hook)), (404, "ContainerNotFound"))
    check("no blob", t.client.exists(), False)
    check("no container", gone.client.exists(), False)

    # A leased blob and create-if-absent.
    t = Thing("blob", container, url)
    put_new = lambda hook: t.client.create_page_blob(512, if_none_match="*", raw_response_hook=hook)
    check("create a blob that exists", outcome(put_new), (409, "BlobAlreadyExists"))
    t.lease(A).acquire(15)
    check("create a blob that is leased", outcome(put_new), (412, "LeaseIdMissing"))

    # Metadata and headers need the lease, too.
    for what, call in {
        "metadata": lambda **o: t.client.set_blob_metadata({"a": "b"}, **o),
        "headers": lambda **o: t.client.set_http_headers(ContentSettings(content_type="text/plain"), **o),
    }.items():
        check(f"{what} without", outcome(lambda hook: call(raw_response_hook=hook)), (412, "LeaseIdMissing"))
        check(f"{what} with", outcome(lambda hook: call(lease=A, raw_response_hook=hook)), OK)
    properties = t.client.get_blob_properties()
    check("metadata", properties.metadata, {"a": "b"})
    check("type", properties.content_settings.content_type, "text/plain")

    # The holder of a lease may write a blob that should be new.
    t = Thing("blob", container, url)
    t.lease(A).acquire(15)
    holder = lambda data: outcome(lambda hook: t.client.upload_blob(data, lease=A, raw_response_hook=hook))
    check("the holder writes the leased blob", holder(b"2"), CREATED)
    check("the holder writes it in blocks", holder(iter([b"3"])), CREATED)
    check("content that the holder wrote", t.client.download_blob().readall(), b"3")
    t.lease(A).break_lease(20)
    check("the holder writes while the lease is breaking", holder(b"4"), CREATED)
    t.lease(A).break_lease(0)
    check("the holder does not write when it is broken", holder(b"5"), (412, "LeaseLost"), (412, "LeaseNotPresentWithBlobOperation"))

    # A container's lease guards only its deletion, which also deletes leased blobs in it.
    t = Thing("container", container, url)
    t.lease(A).acquire(15)
    blob = t.client.get_blob_client("b")
    blob.upload_blob(b"x")
    blob.acquire_lease(-1, lease_id=B)
    t.client.set_container_metadata({"k": "v"})
    check("container metadata", t.client.get_container_properties().metadata, {"k": "v"})
    check("delete a leased container without its id", t.delete(), (412, "LeaseIdMissing"))
    check("delete a leased container with its id", t.delete(A), ACCEPTED)
    t.client.create_container()
    blob.upload_blob(b"y")
    check("the lease of the old blob is gone", blob.get_blob_properties().lease.state, "available")
    check("the lease of the old container is gone", t.state(), "available")

    # A new blob with the name of a deleted one has no lease.
    t = Thing("blob", container, url)
    t.lease(A).acquire(-1)
    t.client.delete_blob(lease=A)
    t.client.upload_blob(b"again")
    check("a new blob", t.state(), "available")
    check("renew with the id of the deleted blob", t.renew(A), MISMATCH)

    # A container that exists already.
    check("create a container that exists", outcome(lambda hook: container.create_container(raw_response_hook=hook)), (409, "ContainerAlreadyExists"))


def conditions(container, url):
    t = Thing("blob", container, url)
    first = t.client.get_blob_properties()
    old = {"etag": first.etag, "match_condition": MatchConditions.IfNotModified}
    t.client.upload_blob(b"two", overwrite=True, **old)
    second = t.client.get_blob_properties()
    check("every write has an ETag of its own", first.etag == second.etag, False)
    unmet = (412, "ConditionNotMet")
    check("write with an old ETag", outcome(lambda hook: t.client.upload_blob(b"3", overwrite=True, raw_response_hook=hook, **old)), unmet)
    lease = lambda **o: outcome(lambda hook: t.lease(A).acquire(15, raw_response_hook=hook, **o))
    check("lease with an old ETag", lease(**old), unmet)
    check("lease with the ETag", lease(etag=second.etag, match_condition=MatchConditions.IfNotModified), CREATED)
    past = datetime.now(timezone.utc) - timedelta(hours=1)
    future = datetime.now(timezone.utc) + timedelta(hours=1)
    check("modified since then", lease(if_modified_since=past), CREATED)
    check("not modified since then", lease(if_modified_since=future), unmet)
    check("unmodified since then", lease(if_unmodified_since=future), CREATED)
    check("modified after then", lease(if_unmodified_since=past), unmet)
    read = lambda **o: outcome(lambda hook: t.client.get_blob_properties(raw_response_hook=hook, **o))
    check("read with a known ETag", read(etag=second.etag, match_condition=MatchConditions.IfModified)[0], 304)
    check("read with an old ETag", read(**old), unmet)
    check("delete with an old ETag", outcome(lambda hook: t.client.delete_blob(lease=A, raw_response_hook=hook, **old)), unmet)
    t = Thing("container", container, url)
    check("container", outcome(lambda hook: t.client.delete_container(if_unmodified_since=past, raw_response_hook=hook)), unmet)
    check("container lease", outcome(lambda hook: t.lease(A).acquire(15, if_modified_since=future, raw_response_hook=hook)), unmet)


def bodies(container, url):
    blob = container.get_blob_client("bodies/ä b+c%2F//d.txt")
    MD5 = hashlib.md5(b"0123456789").digest()
    settings = ContentSettings(
        content_type="text/x", content_encoding="enc", content_language="de", cache_control="no-store",
        content_disposition="attachment", content_md5=bytearray(MD5),
    )
    blob.upload_blob(b"0123456789", metadata={"k1": "v1", "a_b": "2", "a1": "3", "ab": "4"}, content_settings=settings)
    check("body", blob.download_blob().readall(), b"0123456789")
    check("part", blob.download_blob(offset=2, length=3).readall(), b"234")
    properties = blob.get_blob_properties()
    for name in ("content_type", "content_encoding", "content_language", "cache_control", "content_disposition"):
        check(name, getattr(properties.content_settings, name), getattr(settings, name))
    check("md5", bytes(properties.content_settings.content_md5), MD5)
    check("metadata", properties.metadata, {"k1": "v1", "a_b": "2", "a1": "3", "ab": "4"})
    check("size and type", (properties.size, properties.blob_type.value), (10, "BlockBlob"))
    cased = container.get_blob_client("bodies/cased")
    cased.upload_blob(b"", metadata={"LeaderName": "Me"})
    check("case of metadata", cased.get_blob_properties().metadata, {"leadername": "Me"})
    listed = list(container.list_blobs(name_starts_with="bodies/cased", include=["metadata"]))
    check("case of metadata in a list", listed[0].metadata, {"leadername": "Me"})
    empty = container.get_blob_client("bodies/empty")
    empty.upload_blob(b"")
    check("an empty body", empty.download_blob().readall(), b"")
    page = container.get_blob_client("bodies/page")
    page.create_page_blob(1024)
    check("pages", page.download_blob().readall(), bytes(1024))
    check("page type", page.get_blob_properties().blob_type.value, "PageBlob")
    large = container.get_blob_client("bodies/large")
    large.upload_blob(b"x" * (1 << 20))
    check("a mebibyte", large.get_blob_properties().size, 1 << 20)
    upload = lambda hook: large.upload_blob(b"x" * ((1 << 20) + 1), overwrite=True, raw_response_hook=hook)
    check("more", outcome(upload), (413, "RequestBodyTooLarge"))
    check("part with its hash", blob.download_blob(offset=2, length=3, validate_content=True).readall(), b"234")
    tagged = lambda hook: large.get_blob_properties(if_tags_match_condition="\"a\" = 'b'", raw_response_hook=hook)
    check("tags", outcome(tagged)[0], 400)


def blocks(container, url):
    blob = container.get_blob_client("blocks/of a stream")
    blob.upload_blob(iter([b"one ", b"two"]), metadata={"a": "b"})
    check("a stream", blob.download_blob().readall(), b"one two")
    check("metadata of a stream", blob.get_blob_properties().metadata, {"a": "b"})
    stream = lambda hook: blob.upload_blob(iter([b"x"]), raw_response_hook=hook)
    check("a stream to an existing blob", outcome(stream), (409, "BlobAlreadyExists"))
    blob = container.get_blob_client("blocks/by hand")
    for block in (b"AAAA", b"AAAB"):
        blob.stage_block(block.decode(), block, validate_content=True)
    committed, uncommitted = blob.get_block_list("all")
    check("uncommitted blocks", (committed, [(b.id, b.size) for b in uncommitted]), ([], [("AAAA", 4), ("AAAB", 4)]))
    blob.commit_block_list(["AAAB", "AAAA"])
    check("a blob of blocks", blob.download_blob().readall(), b"AAABAAAA")
    committed, uncommitted = blob.get_block_list("all")
    check("committed blocks", ([b.id for b in committed], uncommitted), (["AAAB", "AAAA"], []))
    blob.acquire_lease(15, lease_id=A)
    stage = lambda **o: outcome(lambda hook: blob.stage_block("AAAA", b"x", raw_response_hook=hook, **o))
    check("a block without the lease", stage(), (412, "LeaseIdMissing"))
    check("a block with another lease", stage(lease=B), (412, "LeaseIdMismatchWithBlobOperation"))
    check("a block with the lease", stage(lease=A), CREATED)
    unknown = lambda hook: blob.commit_block_list(["AAAC"], lease=A, raw_response_hook=hook)
    check("a block that does not exist", outcome(unknown), (400, "InvalidBlockList"))


def batches(container, url):
    names = [f"batch/{number} ä+b" for number in range(5)]
    for name in names:
        container.upload_blob(name, b"x")
    container.get_blob_client(names[0]).acquire_lease(15, lease_id=A)
    parts = container.delete_blobs(*names[:4], "batch/none", raise_on_any_failure=False)
    check("a batch", [part.status_code for part in parts], [412, 202, 202, 202, 404])
    left = [blob.name for blob in container.list_blobs(name_starts_with="batch/")]
    check("the blobs that a batch leaves", left, [names[0], names[4]])
    parts = container.delete_blobs({"name": names[0], "lease_id": A}, names[4])
    check("a batch with a lease id", [part.status_code for part in parts], [202, 202])


def refusals(container, url):
    """Clients that send the whole body before they read get their answers."""
    host = url.split("://")[1]

    def refused():
        for _ in range(10):
            connection = http.client.HTTPConnection(host, timeout=30)
            try:
                connection.request("PUT", f"/{ACCOUNT}/{container.container_name}/refused", body=b"x" * 900_000)
                check("a body without a credential", connection.getresponse().status, 401)
            except OSError as error:
                check("a body without a credential", error, 401)
            finally:
                connection.close()

    threads = [threading.Thread(target=refused) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def lists(url):
    container = service(url).get_container_client(f"lists-{uuid.uuid4().hex[:8]}")
    container.create_container(metadata={"of": "lists"})
    names = sorted(["a", "b/1", "b/2", "b/3/x", "c d", "<&>", "é"])
    for name in names:
        container.upload_blob(name, b"x", metadata={"name": "m"})
    listed = list(container.list_blobs(include=["metadata"]))
    check("names", [blob.name for blob in listed], names)
    check("metadata", {str(blob.metadata) for blob in listed}, {"{'name': 'm'}"})
    check("no metadata", {str(blob.metadata) for blob in container.list_blobs()}, {"{}"}, {"None"})
    check("prefix", [blob.name for blob in container.list_blobs(name_starts_with="b/")], ["b/1", "b/2", "b/3/x"])
    check("more than a page has", [blob.name for blob in container.list_blobs(results_per_page=6000)], names)
    pages = [[blob.name for blob in page] for page in container.list_blobs(results_per_page=3).by_page()]
    check("pages", pages, [names[:3], names[3:6], names[6:]])
    walked = [(blob.name, "prefix" in blob) for blob in container.walk_blobs(delimiter="/")]
    check("delimiter", sorted(name for name, _ in walked), sorted(["a", "b/", "c d", "<&>", "é"]))
    paged = [[blob.name for blob in page] for page in container.walk_blobs(delimiter="/", results_per_page=1).by_page()]
    check("delimiter by page", sorted(name for page in paged for name in page), sorted(["a", "b/", "c d", "<&>", "é"]))
    container.get_blob_client("a").acquire_lease(15)
    leased = {blob.name: blob.lease.state for blob in container.list_blobs()}
    check("leases", (leased["a"], leased["b/1"]), ("leased", "available"))
    mine = [found for found in service(url).list_containers(name_starts_with="lists-", include_metadata=True)]
    check("containers", container.container_name in [found.name for found in mine], True)
    check("metadata of containers", all(found.metadata == {"of": "lists"} for found in mine), True)
    container.delete_container()


def contention(container, url):
    """Twenty clients acquire at once and one succeeds, repeatedly."""
    for _ in range(5):
        thing = Thing("blob", container, url)
        start = threading.Barrier(20)
        winners = []

        def compete():
            own = service(url).get_blob_client(container.container_name, thing.client.blob_name)
            start.wait()
            try:
                winners.append(own.acquire_lease(15).id)
            except HttpResponseError as error:
                check("the refusal of a loser", refused(error), PRESENT)

        threads = [threading.Thread(target=compete) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        check("winners of twenty", len(winners), 1)
        check("the winner holds", thing.renew(winners[0]), OK)


def signatures(container, url):
    t = Thing("blob", container, url)
    name, blob = container.container_name, t.client.blob_name
    read = lambda client: outcome(lambda hook: client.get_blob_properties(raw_response_hook=hook))
    failed = (403, "AuthenticationFailed")
    other_key = "A" * 86 + "=="
    check("another key", read(service(url, other_key).get_blob_client(name, blob)), failed)
    unknown = BlobClient(f"{url}/nobody", name, blob, credential={"account_name": "nobody", "account_key": KEY}, retry_total=0)
    check("another account", read(unknown), failed)
    anonymous = BlobClient(f"{url}/{ACCOUNT}", name, blob, retry_total=0)
    check("without a credential", read(anonymous)[0], 401)

    def account_sas(**change):
        options = dict(
            account_name=ACCOUNT, account_key=KEY, resource_types=ResourceTypes(service=True, container=True, object=True),
            permission=AccountSasPermissions(read=True, write=True, delete=True, list=True, create=True),
            expiry=datetime.now(timezone.utc) + timedelta(hours=1),
        )
        options.update(change)
        return service(url, generate_account_sas(**options))

    hour = timedelta(hours=1)
    now = datetime.now(timezone.utc)
    by = lambda client: client.get_blob_client(name, blob)
    check("account SAS", read(by(account_sas())), OK)
    acquire = lambda client, i=A: outcome(lambda hook: BlobLeaseClient(client, lease_id=i).acquire(15, raw_response_hook=hook))
    check("account SAS acquires", acquire(by(account_sas())), CREATED)
    check("expired", read(by(account_sas(expiry=now - hour))), failed)
    check("not yet valid", read(by(account_sas(start=now + hour))), failed)
    check("other key", read(by(account_sas(account_key=other_key))), failed)
    denied = (403, "AuthorizationPermissionMismatch")
    reader = account_sas(permission=AccountSasPermissions(read=True))
    check("a reader reads", read(by(reader)), OK)
    check("a reader acquires nothing", acquire(by(reader)), denied)
    check("containers only", read(by(account_sas(resource_types=ResourceTypes(container=True)))), (403, "AuthorizationResourceTypeMismatch"))
    check("https only", read(by(account_sas(protocol="https"))), (403, "AuthorizationProtocolMismatch"))
    check("for this address", read(by(account_sas(ip="127.0.0.0-127.255.255.255"))), OK)
    check("for another address", read(by(account_sas(ip="10.9.8.7"))), (403, "AuthorizationSourceIPMismatch"))
    listing = account_sas(permission=AccountSasPermissions(list=True))
    check("lists containers", name in [found.name for found in listing.list_containers()], True)
    leased = account_sas().get_container_client(Thing("container", container, url).client.container_name)
    check("leases containers", outcome(lambda hook: BlobLeaseClient(leased, lease_id=A).acquire(15, raw_response_hook=hook)), CREATED)

    def blob_sas(permission, of=blob, **change):
        options = dict(expiry=now + hour, permission=permission)
        options.update(change)
        token = generate_blob_sas(ACCOUNT, name, of, account_key=KEY, **options)
        return BlobClient(f"{url}/{ACCOUNT}", name, blob, credential=token, retry_total=0)

    check("blob SAS", read(blob_sas(BlobSasPermissions(read=True))), OK)
    check("blob SAS of another blob", read(blob_sas(BlobSasPermissions(read=True), of="other")), failed)
    check("blob SAS expired", read(blob_sas(BlobSasPermissions(read=True), expiry=now - hour)), failed)
    check("blob SAS without the permission to read", read(blob_sas(BlobSasPermissions(write=True))), denied)
    check("blob SAS acquires", acquire(blob_sas(BlobSasPermissions(write=True))), CREATED)
    create = blob_sas(BlobSasPermissions(create=True))
    t.lease(A).release()
    over = lambda hook: create.upload_blob(b"x", overwrite=True, raw_response_hook=hook)
    check("a signature that may create does not overwrite", outcome(over), denied)
    delete = lambda client: outcome(lambda hook: client.delete_blob(raw_response_hook=hook))
    check("delete needs d", delete(blob_sas(BlobSasPermissions(read=True, write=True))), denied)

    def container_sas(permission, **change):
        options = dict(expiry=now + hour, permission=permission)
        options.update(change)
        token = generate_container_sas(ACCOUNT, name, account_key=KEY, **options)
        return ContainerClient(f"{url}/{ACCOUNT}", name, credential=token, retry_total=0)

    everything = container_sas(ContainerSasPermissions(read=True, write=True, delete=True, list=True))
    check("container SAS reads", read(everything.get_blob_client(blob)), OK)
    check("container SAS lists", blob in [found.name for found in everything.list_blobs()], True)
    properties = lambda hook: everything.get_container_properties(raw_response_hook=hook)
    check("container SAS gives no access to the container itself", outcome(properties)[0], 403)
    no_list = container_sas(ContainerSasPermissions(read=True))
    check("container SAS without the permission to list", outcome(lambda hook: list(no_list.list_blobs(raw_response_hook=hook))), denied)
    check("delete by d", delete(blob_sas(BlobSasPermissions(delete=True))), ACCEPTED)


def headers(container, url):
    t = Thing("blob", container, url)
    seen = []
    hook = lambda response: seen.append(response)
    t.lease(A).acquire(15, raw_response_hook=hook, client_request_id="My-Own.Id/1")
    answer = seen[-1].http_response.headers
    check("the client's id is echoed", answer["x-ms-client-request-id"], "My-Own.Id/1")
    check("a request id", len(answer["x-ms-request-id"]), 36)
    check("the version of the request is used", answer["x-ms-version"], seen[-1].http_request.headers["x-ms-version"])
    epoch = int(answer["tenure-epoch"])
    t.lease(A).renew(raw_response_hook=hook)
    check("a renewal's epoch", int(seen[-1].http_response.headers["tenure-epoch"]), epoch)
    t.client.get_blob_properties(raw_response_hook=hook)
    check("the epoch in properties", int(seen[-1].http_response.headers["tenure-epoch"]), epoch)
    check("the epoch is not in the metadata", t.client.get_blob_properties().metadata, {})
    t.lease(A).release()
    t.client.get_blob_properties(raw_response_hook=hook)
    check("without a term there is no epoch", "tenure-epoch" in seen[-1].http_response.headers, False)
    t.lease(B).acquire(15, raw_response_hook=hook)
    check("epochs grow", int(seen[-1].http_response.headers["tenure-epoch"]) > epoch, True)


def main():
    url = sys.argv[1].rstrip("/")
    if len(sys.argv) > 2:
        known.update(line.strip() for line in open(sys.argv[2], encoding="utf-8"))
    container = service(url).get_container_client(f"suite-{uuid.uuid4().hex[:8]}")
    container.create_container()
    began = time.monotonic()
    cells = prepared("blob", container, url) + prepared("container", container, url)
    last = time.monotonic()
    for part in (details, conditions, bodies, blocks, batches, refusals, contention, signatures, headers):
        try:
            part(container, url)
        except Exception as error:
            check(f"{part.__name__} to the end", f"{type(error).__name__}: {error}".splitlines()[0])
    try:
        lists(url)
    except Exception as error:
        check("lists to the end", f"{type(error).__name__}: {error}".splitlines()[0])
    # All that were acquired expire meanwhile.
    time.sleep(max(0.0, last + 15.5 - time.monotonic()))
    run_cells(cells)
    container.delete_container()
    print(
        f"{checks} checks, {len(failures)} failed, {len(differences)} known differences, "
        f"{time.monotonic() - began:.0f} s"
    )
    sys.exit(1 if failures else 0)


main()
