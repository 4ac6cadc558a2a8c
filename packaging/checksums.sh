#!/usr/bin/env bash
# Writes the SHA-256 of all files of a release: packaging/checksums.sh [FOLDER]
set -euo pipefail
cd "$(realpath "${1:-dist}")"
rm -f SHA256SUMS
sums=$(find . -maxdepth 1 -type f ! -name ca-certificates.crt -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum)
echo "$sums" > SHA256SUMS
test -s SHA256SUMS
sha256sum --check --quiet SHA256SUMS
echo "   $(wc -l < SHA256SUMS) files in SHA256SUMS"
