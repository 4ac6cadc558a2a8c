#!/usr/bin/env bash
# Writes the list of all crates in the command, as CycloneDX: packaging/sbom.sh [FOLDER]
set -euo pipefail
out=$(realpath -m "${1:-dist}")
cd "$(dirname "$0")/.."

command -v cargo-cyclonedx > /dev/null || "${TENURE_CARGO:-cargo}" install --locked cargo-cyclonedx
SOURCE_DATE_EPOCH=$(packaging/epoch.sh)
export SOURCE_DATE_EPOCH
name=tenure.cdx
cargo cyclonedx --manifest-path crates/tenure-cli/Cargo.toml --format json --spec-version 1.5 \
  --target "$(rustc -vV | sed -n 's/^host: //p')" --override-filename "$name"
mkdir -p "$out"
mv "crates/tenure-cli/$name.json" "$out/$name.json"
# The command writes a file for each crate of the workspace.
find crates examples tests -name "$name.json" -delete
python3 - "$out/$name.json" << 'END'
import json, sys
bom = json.load(open(sys.argv[1]))
names = {component["name"] for component in bom["components"]}
assert {"rustls", "tokio", "libsqlite3-sys"} <= names, sorted(names)
without = [c["name"] for c in bom["components"] if "version" not in c or "purl" not in c]
assert not without, without
print(f"   {len(names)} crates in {sys.argv[1].rsplit('/', 1)[-1]}")
END
