#!/usr/bin/env bash
# Packs the files of a release that people download: packaging/archive.sh [FOLDER]
#
# FOLDER has the results of packaging/binary.sh and packaging/book.sh. The archives of one commit are
# the same files.
set -euo pipefail
out=$(realpath "${1:-dist}")
cd "$(dirname "$0")/.."
name=tenure-$(packaging/version.sh)-$(uname -m)-linux
epoch=$(packaging/epoch.sh)

pack() { # pack NAME FOLDER
  tar -C "$2" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$epoch" -c "$(basename "$1" .tar.gz)" \
    | gzip -n -9 > "$out/$1"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder=$work/$name
mkdir -p "$folder/completions"
install -m 755 "$out/tenure" "$folder/tenure"
cp README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT "$folder/"
cp -r deploy "$folder/deploy"
"$out/tenure" man "$folder/man"
for shell in bash zsh fish; do "$out/tenure" completions "$shell" > "$folder/completions/tenure.$shell"; done
# Only the execute bit of a file is kept, not the mask of the user who packs it.
chmod -R u=rwX,go=rX "$folder"
pack "$name.tar.gz" "$work"

book=tenure-$(packaging/version.sh)-book
cp -r "$out/book" "$work/$book"
chmod -R u=rwX,go=rX "$work/$book"
pack "$book.tar.gz" "$work"
(cd "$out" && ls -l "$name.tar.gz" "$book.tar.gz")
