#!/usr/bin/env bash
# Makes the Debian packages: packaging/deb.sh BINARY [FOLDER [VERSION]]
#
# BINARY is the result of packaging/binary.sh, FOLDER is dist by default, and VERSION that of the
# workspace. tenure-doc contains the book (packaging/book.sh).
set -euo pipefail
binary=$(realpath "${1:?the binary}")
out=$(realpath -m "${2:-dist}")
cd "$(dirname "$0")/.."
version=${3:-$(packaging/version.sh)}

if ! command -v dh > /dev/null; then
  apt-get update
  apt-get install -y --no-install-recommends debhelper dpkg-dev
fi

SOURCE_DATE_EPOCH=$(packaging/epoch.sh)
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source=$work/tenure
mkdir -p "$source/input"
cp -r packaging/debian "$source/debian"
cp deploy/systemd/tenure.service deploy/systemd/tenure.socket "$source/debian/"
cp packaging/logrotate CHANGELOG.md "$source/input/"
cp -r deploy/prometheus deploy/grafana "$source/input/"
install -m 755 "$binary" "$source/input/tenure"
packaging/book.sh "$source/input/docs"

cat > "$source/debian/changelog" << END
tenure ($version) unstable; urgency=medium

  * See changelog.gz for the changes of this version.

 -- The tenure developers <maintainers@tenure.invalid>  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
END

(cd "$source" && dpkg-buildpackage --build=binary --no-sign --no-check-builddeps > "$work/log" 2>&1) \
  || { cat "$work/log" >&2; exit 1; }
mkdir -p "$out"
cp "$work"/*.deb "$out"
(cd "$out" && sha256sum ./*"_${version}_"*.deb)
