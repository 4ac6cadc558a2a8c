#!/usr/bin/env bash
# Checks the packages and the units in a system of their own: packaging/checks/deb.sh
#
# dist must have the results of packaging/binary.sh and packaging/deb.sh. It runs lintian, makes a
# Debian 12 with debootstrap, starts its systemd in namespaces, and there installs, upgrades and
# purges the package, and reloads, freezes and restarts the service. It needs root.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=$(packaging/version.sh)
architecture=$(dpkg --print-architecture)

say() { printf '   %s\n' "$*"; }
fail() { echo "failed: $*" >&2; exit 1; }

if ! { command -v lintian && command -v debootstrap && command -v nsenter && command -v ip; } > /dev/null; then
  apt-get update
  apt-get install -y --no-install-recommends lintian debootstrap util-linux iproute2
fi

lintian --allow-root --display-info --fail-on error,warning,info \
  "dist/tenure_${version}_$architecture.deb" "dist/tenure-doc_${version}_all.deb"
say 'lintian has no complaint'

work=$(mktemp -d)
machine=
stop() {
  if [ -n "$machine" ]; then
    kill -KILL "$machine" || true
    wait "$machine" 2> /dev/null || true
  fi
  rm -rf "$work"
}
trap stop EXIT

# A package of the version before, to upgrade from.
packaging/deb.sh dist/tenure "$work/before" "$version~before" > /dev/null
root=$work/root
debootstrap --variant=minbase --include=systemd-sysv,dbus,procps,logrotate bookworm "$root" > "$work/debootstrap" 2>&1 \
  || fail "$(tail -5 "$work/debootstrap")"
cp "$work/before/tenure_$version~before_$architecture.deb" "$root/before.deb"
cp "dist/tenure_${version}_$architecture.deb" "$root/now.deb"
printf "127.0.0.1 localhost\n" > "$root/etc/hosts"
list() { (cd "$root" && find etc usr var/lib lib -path var/lib/dpkg -prune -o -path var/lib/systemd -prune -o -print | sort); }
list > "$work/list"

packaging/checks/machine.sh "$root" &
machine=$!
for _ in $(seq 100); do
  init=$(pgrep -P "$machine" || true)
  if [ -n "$init" ] && nsenter -t "$init" -m -p -r -w test -S /run/systemd/private 2> /dev/null; then break; fi
  sleep 0.1
done
inside() { nsenter -t "$init" -m -u -i -n -p -C -r -w env PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }
wait_for() { # wait_for WHAT COMMAND...
  local what=$1; shift
  for _ in $(seq 300); do
    if "$@" > /dev/null 2>&1; then return; fi
    sleep 0.1
  done
  inside journalctl --no-pager -u tenure -n 20 >&2 || true
  cat "$work/run" >&2 || true
  fail "$what"
}
state() { inside systemctl show tenure --property="$1" --value; }
is() { [ "$(state "$1")" = "$2" ]; }

# The package of the version before: nothing runs before `tenure init`.
inside dpkg -i /before.deb > "$work/dpkg" 2>&1 || fail "$(cat "$work/dpkg")"
inside getent passwd tenure > /dev/null || fail 'there is no user tenure'
is ActiveState inactive || fail 'the service runs before tenure init'
inside tenure init --name localhost > /dev/null
inside systemctl enable --now tenure > /dev/null 2>&1 || fail "$(inside journalctl --no-pager -u tenure -n 20)"
is ActiveState active || fail 'the service does not run'
is Type notify || fail 'the unit does not notify'
inside tenure doctor --probe
inside tenure token create worker --role candidate --namespace billing --bundle /root/worker.toml \
  --server https://localhost:7400 --ca-file /etc/tenure/tls/ca.pem > /dev/null
inside tenure run --config /root/worker.toml --election billing/nightly -- sleep 1000 > "$work/run" 2>&1 &
leads() { inside tenure status billing/nightly --json | tr -d ' ' | grep -q '"state":"leased"'; }
wait_for 'a worker leads' leads
epoch() { inside tenure status billing/nightly --json | tr -d ' \n' | sed 's/.*"epoch":\([0-9]*\).*/\1/'; }
before=$(epoch)
say "installed: $(state StatusText); a worker leads under epoch $before"

# Reloads end, and the process is the same one.
main=$(state MainPID)
inside systemctl reload tenure
is MainPID "$main" || fail 'a reload changed the process'
is ActiveState active || fail 'a reload does not end'

# An upgrade keeps the files and the lease, and restarts the service.
sum() { inside sh -c 'cat /etc/tenure/access.toml /etc/tenure/tenure.toml /etc/tenure/tls/* | sha256sum'; }
files=$(sum)
inside dpkg -i /now.deb > "$work/dpkg" 2>&1 || fail "$(cat "$work/dpkg")"
wait_for 'the service runs after the upgrade' is ActiveState active
! is MainPID "$main" || fail 'the upgrade did not restart the service'
[ "$(sum)" = "$files" ] || fail 'the upgrade changed files of tenure init'
wait_for 'the worker still leads' leads
[ "$(epoch)" = "$before" ] || fail "the epoch was $before and is $(epoch)"
say 'upgraded: the files are the same, and the worker still leads'

# The watchdog: a frozen store is killed and started again.
inside mkdir -p /run/systemd/system/tenure.service.d
printf '[Service]\nWatchdogSec=2\n' | inside tee /run/systemd/system/tenure.service.d/test.conf > /dev/null
inside systemctl daemon-reload
inside systemctl restart tenure
main=$(state MainPID)
sleep 3
is MainPID "$main" || fail 'the watchdog ended a store that is alive'
inside kill -STOP "$main"
another() { ! is MainPID "$main" && is ActiveState active; }
wait_for 'the watchdog restarts a frozen store' another
say 'the watchdog restarted a frozen store'

# The socket: while the store is stopped by a restart, connections wait.
inside systemctl stop tenure
inside systemctl enable --now tenure.socket > /dev/null 2>&1 || fail 'the socket unit does not start'
inside tenure list > /dev/null || fail 'the socket does not start the store'
is ActiveState active || fail 'the socket does not start the store'
say "by the socket: $(state StatusText)"
exposure=$(inside systemd-analyze security --no-pager tenure.service | sed -n 's/.*exposure level for tenure.service: \([0-9.]*\).*/\1/p')
say "exposure of the installed unit: $exposure"
awk -v found="$exposure" 'BEGIN { exit !(found != "" && found <= 1.5) }' || fail 'the exposure is above 1.5'

# Pages, completions, logrotate.
inside test -s /usr/share/man/man1/tenure-serve.1.gz || fail 'there is no manual page'
inside bash -c '. /usr/share/bash-completion/completions/tenure && complete -p tenure' > /dev/null || fail 'completions'
inside logrotate --debug /etc/logrotate.d/tenure > "$work/logrotate" 2>&1 || fail "$(cat "$work/logrotate")"

# Removed, the data stay; purged, nothing stays.
inside dpkg -r tenure > /dev/null 2>&1
inside test -e /etc/tenure/access.toml || fail 'remove deletes the access file'
inside dpkg --purge tenure > "$work/purge" 2>&1 || fail "$(cat "$work/purge")"
inside systemctl daemon-reload
list > "$work/after"
# Backup files of the user database.
if diff "$work/list" "$work/after" | grep '^[<>]' | grep -vE 'etc/(passwd|group|shadow|gshadow|subuid|subgid)-$|\.updated$|machine-id|var/lib/(logrotate|private|dbus)|ssl/certs|/__pycache__'; then
  fail 'purge leaves files behind'
fi
! inside getent passwd tenure > /dev/null || fail 'purge leaves the user behind'
say 'purged: nothing is left'
