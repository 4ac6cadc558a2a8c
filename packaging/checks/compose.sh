# shellcheck shell=bash disable=SC2154
# Functions for checks that run a compose file. The script sets $files, the options that name it.

say() { printf '   %s\n' "$*"; }
fail() { echo "failed: $*" >&2; exit 1; }
compose() { docker-compose -p tenure-check "${files[@]}" "$@"; }
container() { docker ps -q --filter "name=tenure-check[-_]$1[-_]"; }

# Waits up to a minute until the command succeeds.
wait_for() {
  local what=$1; shift
  for _ in $(seq 300); do
    if "$@" > /dev/null 2>&1; then return; fi
    sleep 0.2
  done
  compose logs --tail 20 >&2 || true
  fail "$what"
}

# The terms that a worker's program has printed, and with the names of the workers.
leads() { compose logs "$@" 2> /dev/null | { grep -o 'leads with epoch [0-9]*' || true; } | sort -u; }
leaders() { for n in 1 2 3; do leads "worker-$n" | sed "s/^/worker-$n /"; done; }
has_leader() { [ -n "$(leads)" ]; }

# Installs the programs that these checks need.
install_compose() {
  command -v docker-compose > /dev/null || apt-get install -y --no-install-recommends docker-compose
  command -v busybox > /dev/null || apt-get install -y --no-install-recommends busybox-static
}

# Makes an image of a folder: import_image FOLDER NAME [CHANGE].
import_image() { tar -C "$1" -c . | docker import ${3:+-c "$3"} - "$2" > /dev/null; }

# Copies a program of this machine with its shared libraries: copy_program PROGRAM FOLDER.
copy_program() {
  mkdir -p "$2/bin"
  cp "$1" "$2/bin/"
  ldd "$1" 2> /dev/null | grep -o '/[^ ]*' | xargs -r -I{} cp -L --parents {} "$2"
}

# Makes the base of the workers' image in this folder.
import_busybox() {
  local busybox
  busybox=$(command -v busybox)
  ! ldd "$busybox" > /dev/null 2>&1 || fail "$busybox is not static: apt-get install busybox-static"
  mkdir -p "$1/bin" "$1/tmp"
  cp "$busybox" "$1/bin/busybox"
  for name in sh sleep echo cat; do ln -s busybox "$1/bin/$name"; done
  import_image "$1" busybox:1.37
}
