#!/usr/bin/env bash
# Checks the binary in dist: packaging/checks/binary.sh
#
# It is static, contains its dependencies, which cargo audit reads, resolves names and reads users in
# an empty root, and a second build in another folder is the same file.
set -euo pipefail
cd "$(dirname "$0")/../.."

fail() { echo "failed: $*" >&2; exit 1; }
binary=$(realpath dist/tenure)

if ldd "$binary" > /dev/null 2>&1 && ! ldd "$binary" 2>&1 | grep -q 'statically linked'; then
  fail "the binary needs shared libraries: $(ldd "$binary")"
fi
file=$(readelf -h "$binary" | sed -n 's/^ *Type: *//p')
printf '   static, %s, %s KiB\n' "$file" $(($(stat -c %s "$binary") / 1024))
if strings "$binary" | grep -F -e "$PWD/" -e "$HOME/" -e "$(rustc --print sysroot)" | head -3 | grep .; then
  fail "the binary contains paths of this machine"
fi

# The list of dependencies, as cargo audit bin reads it: zlib in the section .dep-v0.
objcopy -O binary --only-section=.dep-v0 --set-section-flags .dep-v0=alloc "$binary" /dev/stdout \
  | python3 -c '
import json, sys, zlib
packages = json.loads(zlib.decompress(sys.stdin.buffer.read()))["packages"]
names = {package["name"] for package in packages}
assert {"tenure-cli", "rustls", "libsqlite3-sys"} <= names, names
print(f"   contains the list of its {len(packages)} crates")
'

# cargo audit reads that list, too. The advisories are made up, one for each call: a check of the
# real ones, which the workflow of each night makes, must not decide whether a binary can be read.
command -v cargo-audit > /dev/null || "${TENURE_CARGO:-cargo}" install --locked cargo-audit
advisories=$(mktemp -d)
trap 'rm -rf "$advisories"' EXIT
audit() { # audit CRATE: whether it finds nothing about this crate in the binary
  mkdir -p "$advisories/$1/crates/$1"
  cat > "$advisories/$1/crates/$1/RUSTSEC-2020-0001.md" << END
\`\`\`toml
[advisory]
id = "RUSTSEC-2020-0001"
package = "$1"
date = "2020-01-01"

[versions]
patched = []
\`\`\`

# A test

All versions.
END
  git -C "$advisories/$1" init --quiet
  git -C "$advisories/$1" add .
  git -C "$advisories/$1" -c user.name=test -c user.email=test@test.invalid commit --quiet -m test
  cargo audit --db "$advisories/$1" --no-fetch --quiet bin "$binary" > "$advisories/$1.log" 2>&1
}
audit no-such-crate || fail "cargo audit bin: $(cat "$advisories/no-such-crate.log")"
if audit rustls; then fail 'cargo audit bin does not find rustls in the binary'; fi
grep -q RUSTSEC-2020-0001 "$advisories/rustls.log" || fail "cargo audit bin: $(cat "$advisories/rustls.log")"
rm -rf "$advisories"
echo '   cargo audit bin reads the list'

# An empty root: static programs that ask for names need none of the files of the system.
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cp "$binary" "$root/tenure"
mkdir -p "$root/etc" "$root/tmp" "$root/proc" "$root/dev"
# Each container has these.
mknod -m 666 "$root/dev/null" c 1 3
mknod -m 666 "$root/dev/random" c 1 8
mknod -m 666 "$root/dev/urandom" c 1 9
echo '127.0.0.1 store.test' > "$root/etc/hosts"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
chroot "$root" /tenure init --name store.test --dir /etc/tenure --data-dir /data --listen "127.0.0.1:$port" \
  --context-file /context.toml > /dev/null || fail 'init in an empty root'
chroot "$root" /tenure serve --config /etc/tenure/tenure.toml > "$root/out" 2> "$root/log" &
store=$!
trap 'kill "$store" || true; wait "$store" || true; rm -rf "$root"' EXIT
for _ in $(seq 100); do
  if grep -q listening "$root/out"; then break; fi
  sleep 0.1
done
chroot "$root" /tenure token create probe --role read --namespace '*' --output /token \
  --file /etc/tenure/access.toml > /dev/null
sleep 1
chroot "$root" /tenure doctor --probe || fail "the probe in an empty root: $(cat "$root/log")"
chroot "$root" /tenure list --server "https://store.test:$port" --ca-file /etc/tenure/tls/ca.pem \
  --token-file /token || fail 'a name of /etc/hosts, TLS and a token in an empty root'
code=0
chroot "$root" /tenure list --server https://nosuch.local:7400 --ca-file /etc/tenure/tls/ca.pem --token-file /token > /dev/null 2>&1 || code=$?
[ "$code" = 69 ] || fail "a name that nobody has ends the command with $code"
echo '   resolves names and serves TLS in an empty root'

# Modules of the system's own glibc, which must not be loaded: with them, a name that no file has would
# end the process.
if ! find /usr/lib -name 'libnss_systemd.so.2' | grep -q .; then
  apt-get install -y --no-install-recommends libnss-systemd libnss-mdns > /dev/null
fi
printf 'passwd: files systemd\ngroup: files systemd\nhosts: files mdns4_minimal dns\n' > "$root/nsswitch.conf"
# shellcheck disable=SC2016
unshare --mount sh -c 'mount --bind "$1/nsswitch.conf" /etc/nsswitch.conf && exec "$2" init --name localhost \
  --dir "$1/init" --data-dir "$1/none" --context-file "$1/context2.toml"' sh "$root" "$binary" > /dev/null \
  || fail 'init on a system with modules for names'
echo '   loads no module for names'

# Built twice. The sources are in another folder and so are the results.
if [ "${1:-}" != --once ]; then
  copy=$root/copy
  git worktree add --quiet --detach "$copy" HEAD 2> /dev/null || git clone --quiet . "$copy"
  (cd "$copy" && CARGO_TARGET_DIR="$root/target" packaging/binary.sh "$root/second" > /dev/null)
  git worktree remove --force "$copy" 2> /dev/null || true
  cmp "$binary" "$root/second/tenure" || fail 'a second build differs'
  echo '   a second build in another folder is the same file'
fi
