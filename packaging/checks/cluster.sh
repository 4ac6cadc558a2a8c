#!/usr/bin/env bash
# Runs the compose file of the cluster: packaging/checks/dockerd.sh packaging/checks/cluster.sh
#
# dist must have the results of packaging/binary.sh. The images are made from programs of this
# machine, so etcd is the version that this machine has, and nothing is fetched.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=packaging/checks/compose.sh
source packaging/checks/compose.sh

files=(-f docker/cluster/compose.yaml)
install_compose
etcd=$(command -v etcd) || fail 'etcd is missing: apt-get install etcd-server'
work=$(mktemp -d)
trap 'compose down -v --remove-orphans > /dev/null 2>&1 || true; rm -rf "$work"' EXIT

image=$(sed -n 's/^  image: \(.*etcd:.*\)$/\1/p' docker/cluster/compose.yaml)
copy_program "$etcd" "$work/etcd"
mkdir -p "$work/etcd/etcd-data"
import_image "$work/etcd" "$image" 'CMD ["/bin/etcd"]'
import_busybox "$work/base"

start=$SECONDS
DOCKER_BUILDKIT=0 compose build store-1 > "$work/build" 2>&1 || fail "$(cat "$work/build")"
DOCKER_BUILDKIT=0 compose up -d --build > "$work/up" 2>&1 || fail "$(cat "$work/up")"
wait_for 'a worker leads' has_leader
say "a worker leads after $((SECONDS - start)) s"

addresses=(--server http://127.0.0.1:7401 --server http://127.0.0.1:7402 --server http://127.0.0.1:7403)
status() { dist/tenure cluster status "${addresses[@]}" "$@"; }
wait_for 'one server is active' status
status
active() { status --json | jq -er .active; }

# The active server is killed, and then stopped in order.
for end in kill stop; do
  before=$(leads)
  killed=$(active)
  compose "$end" "$killed" > /dev/null 2>&1
  another() { [ "$(active)" != "$killed" ]; }
  wait_for 'another server is active' another
  # Longer than a lease duration: without renewals the term would be over.
  sleep 17
  [ "$(leads)" = "$before" ] || fail "the leader changed: $before, then $(leads)"
  say "the leader outlived the $end of $killed; $(active) is active"
  compose start "$killed" > /dev/null 2>&1
  wait_for 'the server is back' status
done

# Without a majority of etcd nothing is granted; when it is back, it goes on by itself.
compose stop etcd-1 etcd-2 > /dev/null 2>&1
none_active() { ! status; }
wait_for 'no server is active without a majority of etcd' none_active
compose start etcd-1 etcd-2 > /dev/null 2>&1
wait_for 'a server is active again' status
say "etcd lost its majority for a while: $(active) is active again"
say "all checks of the cluster passed"
