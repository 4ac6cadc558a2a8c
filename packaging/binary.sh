#!/usr/bin/env bash
# Builds the static binary of the command: packaging/binary.sh [FOLDER], by default dist.
#
# The binary is linked with glibc statically, so it needs no file of the system it runs on. It
# contains the list of its dependencies (cargo auditable). No path, time or name of the machine gets
# into it, so two builds of one commit with one toolchain are the same file.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-dist}

cargo=${TENURE_CARGO:-cargo}
target=$(rustc -vV | sed -n 's/^host: //p')
folder=${CARGO_TARGET_DIR:-$PWD/target}
home=${CARGO_HOME:-$HOME/.cargo}

if ! command -v cargo-auditable > /dev/null; then
  "$cargo" install --locked cargo-auditable
fi

std=$(rustc --print sysroot)/lib/rustlib/src/rust

remap() { printf '%s=%s ' "$1$PWD" /tenure "$1$home" /cargo "$1$folder" /target "$1$std" /std; }
CFLAGS="$(remap -ffile-prefix-map=)"
mkdir -p "$folder"
# shellcheck disable=SC2086
cc -O2 -fPIC $CFLAGS -c packaging/nss.c -o "$folder/nss.o"
# The packed form of relocations takes a megabyte less.
RUSTFLAGS="-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs -C link-arg=$folder/nss.o"
RUSTFLAGS+=" $(remap --remap-path-prefix=)"
export RUSTFLAGS CFLAGS CARGO_INCREMENTAL=0
SOURCE_DATE_EPOCH=$(packaging/epoch.sh)
export SOURCE_DATE_EPOCH

# With --target the flags are not used for build scripts and macros, which can't be static.
"$cargo" auditable build --profile dist --locked --target "$target" --package tenure-cli --bin tenure

mkdir -p "$out"
# Without symbols, which `strip` of the profile leaves in a static binary here, and without the names
# of the compilers. Nothing reads either.
objcopy --strip-all --remove-section .comment "$folder/$target/dist/tenure" "$out/tenure"
chmod 755 "$out/tenure"
# docker/Dockerfile puts them into the image, for stores with a certificate of a public authority.
install -m 644 /etc/ssl/certs/ca-certificates.crt "$out/"
sha256sum "$out/tenure"
