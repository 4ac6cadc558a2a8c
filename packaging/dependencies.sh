#!/usr/bin/env bash
# Checks licences, sources and bans of dependencies: packaging/dependencies.sh [--advisories]
#
# With --advisories also known vulnerabilities, for which cargo deny fetches its database.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v cargo-deny > /dev/null || "${TENURE_CARGO:-cargo}" install --locked cargo-deny
if [ "${1:-}" = --advisories ]; then
  cargo deny check
else
  cargo deny --offline check bans licenses sources
fi
