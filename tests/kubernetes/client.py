"""A candidate by the leader election of the Python client of Kubernetes.

Arguments: the server, the receiver (HOST:PORT), the namespace, the name of the Lease, the identity.
While it leads it acts at the receiver, with the wall clock in milliseconds instead of an epoch. The
process ends with its term, as the client's documentation advises.

For a real server the environment has POD_FILES, a folder with the files of a pod. LEASE_DURATION is in
seconds. If the receiver is the path of a file, the leader writes ticks there.
"""

import os
import socket
import sys
import threading
import time

from kubernetes import client
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

server, receiver, namespace, name, identity = sys.argv[1:]
configuration = client.Configuration()
configuration.host = server
configuration.retries = False
files = os.environ.get("POD_FILES")
if files:
    configuration.ssl_ca_cert = f"{files}/ca.crt"


def read_token(it):
    if files:
        with open(f"{files}/token") as token:
            it.api_key["authorization"] = f"Bearer {token.read()}"


configuration.refresh_api_key_hook = read_token
read_token(configuration)
client.Configuration.set_default(configuration)


def act():
    if receiver.startswith("/"):
        tick()
        return
    host, port = receiver.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)))
    answers = connection.makefile("r")
    epoch = time.time_ns() // 1_000_000
    while True:
        before = time.monotonic_ns()
        if stopped.is_set():
            return
        after = time.monotonic_ns()
        connection.sendall(f"act {identity} {epoch} {before} {after}\n".encode())
        answers.readline()
        time.sleep(0.01)


def tick():
    with open(receiver, "a", buffering=1) as ticks:
        while not stopped.is_set():
            at = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
            ticks.write(f"{at} {identity}\n")
            time.sleep(0.01)


def end():
    stopped.set()
    os._exit(0)


stopped = threading.Event()
seconds = int(os.environ.get("LEASE_DURATION", "8"))
config = electionconfig.Config(
    LeaseLock(name, namespace, identity),
    lease_duration=seconds,
    renew_deadline=seconds * 2 // 3,
    retry_period=max(1, seconds // 8),
    onstarted_leading=act,
    onstopped_leading=end,
)
leaderelection.LeaderElection(config).run()
