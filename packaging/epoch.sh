#!/usr/bin/env bash
# Prints the time that files of a release get: SOURCE_DATE_EPOCH, or that of the last commit.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -n "${SOURCE_DATE_EPOCH:-}" ]; then
  echo "$SOURCE_DATE_EPOCH"
else
  git log -1 --format=%ct
fi
