"""A whole term with the generated client: client.py URL TOKEN."""

import sys
import uuid

from tenure_store import AuthenticatedClient
from tenure_store.api.access import whoami
from tenure_store.api.leases import acquire, history, release, renew, view
from tenure_store.models import (
    AcquireRequest,
    History,
    LeaseView,
    Problem,
    ReleaseRequest,
    RenewRequest,
)

url, token = sys.argv[1:]
client = AuthenticatedClient(base_url=url, token=token)
where = {"namespace": "billing", "lease": "nightly", "client": client}


def request(holder, lease_id):
    return AcquireRequest(holder=holder, duration_ms=15_000, lease_id=lease_id)


lease_id = uuid.uuid4()
granted = acquire.sync(**where, body=request("worker-1", lease_id))
assert isinstance(granted, LeaseView), granted
assert granted.holder == "worker-1" and granted.epoch > 0 and granted.lease_id == lease_id, granted

refused = acquire.sync_detailed(**where, body=request("worker-2", uuid.uuid4()))
assert refused.status_code == 409, refused
assert isinstance(refused.parsed, Problem), refused
assert refused.parsed.code == "lease_held" and refused.parsed.holder == "worker-1", refused

renewed = renew.sync(**where, body=RenewRequest(lease_id=lease_id, duration_ms="infinite"))
assert isinstance(renewed, LeaseView) and renewed.epoch == granted.epoch, renewed
assert renewed.duration_ms == "infinite" and renewed.remaining_ms is None, renewed

released = release.sync(**where, body=ReleaseRequest(lease_id=lease_id, reason="done"))
assert isinstance(released, LeaseView) and released.holder is None, released

terms = history.sync(**where)
assert isinstance(terms, History), terms
(term,) = terms.terms
assert (term.epoch, term.end, term.reason) == (granted.epoch, "released", "done"), term

missing = view.sync_detailed(**{**where, "lease": "missing"})
assert missing.status_code == 404 and missing.parsed.code == "unknown_lease", missing

stranger = AuthenticatedClient(base_url=url, token="tnr1_wrong")
unknown = whoami.sync_detailed(client=stranger)
assert unknown.status_code == 401 and unknown.parsed.code == "unauthenticated", unknown
assert whoami.sync(client=client).principal == "ada"
