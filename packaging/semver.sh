#!/usr/bin/env bash
# Compares the public API of the libraries with the last release: packaging/semver.sh [REVISION]
#
# REVISION is the newest tag v* before this commit by default. Before the first release there is
# nothing to compare with.
set -euo pipefail
cd "$(dirname "$0")/.."
last=${1:-$(git describe --tags --abbrev=0 --match 'v*' HEAD^ 2> /dev/null || true)}
if [ -z "$last" ]; then
  echo '   there is no release yet to compare with'
  exit 0
fi
command -v cargo-semver-checks > /dev/null || "${TENURE_CARGO:-cargo}" install --locked cargo-semver-checks
"${TENURE_CARGO:-cargo}" semver-checks --baseline-rev "$last" --package tenure --package tenure-config --package tenure-core \
  --package tenure-server --package tenure-azure
