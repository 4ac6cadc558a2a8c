"""Changes of the requests that schemathesis makes."""

import itertools
import os

import schemathesis

addresses = itertools.count(1)


@schemathesis.hook
def before_call(context, case, kwargs):
    # The store limits the wrong credentials of each address.
    number = next(addresses)
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    case.headers = {**(case.headers or {}), "X-Forwarded-For": address}
    # Without a credential, wrong methods get the same 401 on all paths. With one, they get 405.
    if case.method.upper() != case.operation.method.upper():
        case.headers["Authorization"] = "Bearer " + os.environ["TENURE_TOKEN"]
    # A request must not wait for minutes.
    for values in (case.body, case.query):
        if isinstance(values, dict) and isinstance(values.get("wait_ms"), int):
            if 100 < values["wait_ms"] <= 300_000:
                values["wait_ms"] = 100
