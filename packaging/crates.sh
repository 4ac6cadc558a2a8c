#!/usr/bin/env bash
# Packages all crates that are published: packaging/crates.sh [--verify]
#
# With --verify each package is also compiled from its own files.
set -euo pipefail
cd "$(dirname "$0")/.."
verify=--no-verify
if [ "${1:-}" = --verify ]; then verify=; fi

# shellcheck disable=SC2086
"${TENURE_CARGO:-cargo}" package --workspace --exclude tenure-examples --exclude tenure-tests \
  --locked --allow-dirty --quiet $verify
folder=${CARGO_TARGET_DIR:-target}/package
for crate in tenure-core tenure-config tenure-register tenure-server tenure-azure tenure tenure-sim tenure-lab tenure-cli; do
  package=$folder/$crate-$(packaging/version.sh).crate
  tar -tzf "$package" > /dev/null
  printf '   %s, %s files\n' "$(basename "$package")" "$(tar -tzf "$package" | wc -l)"
done
