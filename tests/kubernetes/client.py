"""A candidate by the leader election of the Python client of Kubernetes.

Arguments: the server, the receiver (HOST:PORT), the namespace, the name of the Lease, the identity.
While it leads it acts at the receiver, with the wall clock in milliseconds instead of an epoch. The
process ends with its term, as the client's documentation advises.
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
client.Configuration.set_default(configuration)


def act():
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


def end():
    stopped.set()
    os._exit(0)


stopped = threading.Event()
config = electionconfig.Config(
    LeaseLock(name, namespace, identity),
    lease_duration=8,
    renew_deadline=5,
    retry_period=1,
    onstarted_leading=act,
    onstopped_leading=end,
)
leaderelection.LeaderElection(config).run()
