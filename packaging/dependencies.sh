#!/usr/bin/env bash
# Checks licences, sources and bans of dependencies: packaging/dependencies.sh [--advisories]
#
# With --advisories also known vulnerabilities, for which cargo deny fetches its database. The date of
# the database is printed: what was reported later was not looked for. Without a network,
# TENURE_ADVISORIES names a copy of that database, a git repository.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v cargo-deny > /dev/null || "${TENURE_CARGO:-cargo}" install --locked cargo-deny
if [ "${1:-}" = --advisories ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  source=${TENURE_ADVISORIES:-https://github.com/RustSec/advisory-db}
  if [ -e "$source" ]; then source=file://$(realpath "$source"); fi
  sed "s#^\[advisories\]#&\ndb-path = \"$work/advisories\"\ndb-urls = [\"$source\"]#" deny.toml > "$work/deny.toml"
  cargo deny check --config "$work/deny.toml"
  git -C "$work"/advisories/*/ log -1 --format='   advisories as of %cI, %h'
else
  cargo deny --offline check bans licenses sources
fi
