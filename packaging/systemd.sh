#!/usr/bin/env bash
# Checks the units, and what logrotate and sysusers read: packaging/systemd.sh
set -euo pipefail
cd "$(dirname "$0")/.."

if ! { command -v systemd-analyze && command -v systemd-sysusers && command -v logrotate; } > /dev/null; then
  apt-get update
  apt-get install -y --no-install-recommends systemd logrotate
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The programs and files that the units name need not be on this machine.
mkdir -p "$work/units"
for unit in deploy/systemd/*.service deploy/systemd/*.socket; do
  sed -E 's#^(ExecStart=)[^ ]+#\1/bin/true#; /^Documentation=/d' "$unit" > "$work/units/$(basename "$unit")"
done
if ! systemd-analyze verify --man=no "$work"/units/* > "$work/verify" 2>&1 || [ -s "$work/verify" ]; then
  cat "$work/verify" >&2
  exit 1
fi

for unit in tenure tenure-etcd tenure-worker; do
  exposure=$(systemd-analyze security --no-pager --offline=true "$work/units/$unit.service" \
    | sed -n "s/.*exposure level for $unit.service: \([0-9.]*\).*/\1/p")
  echo "   exposure of $unit.service: $exposure"
  awk -v found="$exposure" 'BEGIN { exit !(found != "" && found <= 1.5) }' || {
    echo "the exposure of $unit.service is above 1.5" >&2
    exit 1
  }
done

mkdir -p "$work/root/etc" "$work/root/usr/lib/sysusers.d"
cp packaging/debian/tenure.sysusers "$work/root/usr/lib/sysusers.d/tenure.conf"
systemd-sysusers --root="$work/root" tenure.conf > /dev/null
grep -q '^tenure:' "$work/root/etc/passwd"

sed "s#/var/log/tenure#$work#; /^ *su /d" packaging/logrotate > "$work/logrotate"
echo line > "$work/audit.log"
logrotate --force --state "$work/state" "$work/logrotate"
test -s "$work/audit.log.1" -a ! -e "$work/audit.log"
echo '   the units, sysusers and logrotate are valid'
