#!/usr/bin/env bash
# Checks licences, sources and bans of dependencies: packaging/dependencies.sh [--advisories]
#
# With --advisories also known vulnerabilities, for which cargo deny fetches its database. The date of
# the database is printed: what was reported later was not looked for.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v cargo-deny > /dev/null || "${TENURE_CARGO:-cargo}" install --locked cargo-deny
if [ "${1:-}" = --advisories ]; then
  cargo deny check
  for database in "${CARGO_HOME:-$HOME/.cargo}"/advisory-dbs/*/; do
    git -C "$database" log -1 --format='   advisories as of %cI, %h'
  done
else
  cargo deny --offline check bans licenses sources
fi
