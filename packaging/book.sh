#!/usr/bin/env bash
# Makes the book of docs/, as HTML: packaging/book.sh [FOLDER], by default dist/book.
#
# It ends with an error if a page is missing from docs/SUMMARY.md, or if a link has no target.
set -euo pipefail
out=$(realpath -m "${1:-dist/book}")
cd "$(dirname "$0")/.."

if ! command -v mdbook > /dev/null; then
  "${TENURE_CARGO:-cargo}" install --locked mdbook --no-default-features --features search
fi

if ! command -v npm > /dev/null; then
  apt-get update
  apt-get install -y --no-install-recommends nodejs npm
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 packaging/book.py stage "$work/src"
cp packaging/book.toml "$work/book.toml"
# In place of the fonts that mdBook adds: the book uses those of the reader's system.
mkdir -p "$work/theme/fonts"
echo '/* no fonts */' > "$work/theme/fonts/fonts.css"
# The program that draws the diagrams in the reader's browser.
(cd "$work" && npm pack --silent mermaid@11.12.0 && tar -xzf mermaid-*.tgz package/dist/mermaid.min.js)
mv "$work/package/dist/mermaid.min.js" "$work/"
echo 'mermaid.initialize({ startOnLoad: true, securityLevel: "strict" });' > "$work/diagrams.js"
mdbook build --dest-dir "$work/html" "$work" > "$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
if grep -E 'WARN|ERROR' "$work/log"; then exit 1; fi
python3 packaging/book.py check "$work/html"
rm -rf "$out"
mkdir -p "$(dirname "$out")"
cp -r "$work/html" "$out"
