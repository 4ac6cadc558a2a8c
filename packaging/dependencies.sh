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
  if [ -n "${TENURE_ADVISORIES:-}" ]; then
    # Git reads the copy in place of the address that cargo deny knows.
    GIT_CONFIG_KEY_0=url.file://$(realpath "$TENURE_ADVISORIES").insteadOf
    export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0 GIT_CONFIG_VALUE_0=https://github.com/RustSec/advisory-db
  fi
  sed "s#^\[advisories\]#&\ndb-path = \"$work/advisories\"\ngit-fetch-with-cli = true#" deny.toml > "$work/deny.toml"
  cargo deny --config "$work/deny.toml" check
  git -C "$work"/advisories/*/ log -1 --format='   advisories as of %cI, %h'
else
  cargo deny check bans licenses sources
fi
