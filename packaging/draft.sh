#!/usr/bin/env bash
# Makes the draft of a release with its files: packaging/draft.sh [FOLDER]
#
# TAG is the tag, such as v0.1.0, and GH_TOKEN is for gh. --dry-run checks all but the upload.
set -euo pipefail
dry_run=false
if [ "${1:-}" = --dry-run ]; then
  dry_run=true
  shift
fi
dist=$(realpath "${1:-dist}")
cd "$(dirname "$0")/.."
: "${TAG:?the tag of the release}"

if [ "$TAG" != "v$(packaging/version.sh)" ]; then
  echo "the tag $TAG is not that of the version $(packaging/version.sh)" >&2
  exit 1
fi
(cd "$dist" && sha256sum --check --quiet SHA256SUMS)

# The section of the changelog for this version.
notes=$(awk -v head="## [$(packaging/version.sh)]" '
  index($0, head) == 1 { inside = 1; next }
  inside && /^## / { exit }
  inside' CHANGELOG.md)
test -n "$notes" || { echo "CHANGELOG.md has no section [$(packaging/version.sh)]" >&2; exit 1; }

mapfile -t files < <(cd "$dist" && sed 's/^[0-9a-f]*  //' SHA256SUMS)
if [ "$dry_run" = true ]; then
  printf '   a draft of %s would have:\n' "$TAG"
  printf '   %s\n' "${files[@]}" SHA256SUMS
  exit 0
fi
cd "$dist"
gh release create "$TAG" --draft --verify-tag --title "$TAG" --notes "$notes" "${files[@]}" SHA256SUMS
