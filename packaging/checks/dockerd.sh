#!/usr/bin/env bash
# Runs a command with a Docker daemon: packaging/checks/dockerd.sh COMMAND...
#
# If no daemon answers, this starts one for the command alone, with its data in a temporary folder,
# and ends it afterwards. It needs root.
set -euo pipefail

if docker version > /dev/null 2>&1; then
  exec "$@"
fi

if ! command -v dockerd > /dev/null; then
  # The package would start its own daemon.
  if [ ! -e /usr/sbin/policy-rc.d ]; then
    printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
    chmod +x /usr/sbin/policy-rc.d
    remove_policy=true
  fi
  apt-get update
  apt-get install -y --no-install-recommends docker.io iptables
  if [ "${remove_policy:-}" = true ]; then rm /usr/sbin/policy-rc.d; fi
fi

folder=$(mktemp -d)
export DOCKER_HOST=unix://$folder/docker.sock
dockerd --host "$DOCKER_HOST" --data-root "$folder/data" --exec-root "$folder/exec" \
  --pidfile "$folder/pid" > "$folder/log" 2>&1 &
daemon=$!

stop() {
  docker ps -aq | xargs -r docker rm -f > /dev/null 2>&1 || true
  kill "$daemon" || true
  wait "$daemon" || true
  # The daemon may leave mounts behind.
  awk -v folder="$folder" 'index($2, folder) == 1 { print $2 }' /proc/mounts | sort -r | xargs -r -n 1 umount -l || true
  rm -rf "$folder"
}
trap stop EXIT

for _ in $(seq 100); do
  if docker version > /dev/null 2>&1; then break; fi
  if ! kill -0 "$daemon" 2> /dev/null; then break; fi
  sleep 0.3
done
if ! docker version > /dev/null 2>&1; then
  echo "dockerd does not start:" >&2
  tail -20 "$folder/log" >&2
  exit 1
fi
"$@"
