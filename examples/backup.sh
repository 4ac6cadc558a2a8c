#!/bin/sh
# Backs up a directory once an hour, from one of several machines. Start this on each of them:
#
#   tenure run --election ops/backup -- examples/backup.sh /srv/data /mnt/backups
#
# The name of an archive contains the time and the epoch; "latest" points to the newest archive. A
# leader that was frozen and continues too late publishes nothing, because the target directory
# already has a greater epoch.
set -eu

[ $# -ge 2 ] || { echo "usage: backup.sh SOURCE TARGET [SECONDS]" >&2; exit 64; }
source=$1 target=$2 interval=${3:-3600}
: "${TENURE_EPOCH:?is not set: start this with tenure run}"

part=$target/.part-$TENURE_EPOCH
trap 'rm -f "$part"' EXIT
trap 'exit 143' TERM INT

# Checks the epoch and publishes under a lock that all machines share. On NFS 4 flock works across
# machines; elsewhere keep the epoch in a service with an atomic compare-and-set.
publish() {
    (
        flock 9
        newest=0
        if [ -e "$target/epoch" ]; then newest=$(cat "$target/epoch"); fi
        # An unreadable file may have contained any epoch, so a damaged fence refuses all epochs.
        case $newest in
            '' | *[!0-9]*)
                echo "$target/epoch is no epoch: write the one that \"tenure status\" shows into it" >&2
                exit 1
                ;;
        esac
        # The negated test also refuses a number that is too large for the shell.
        if ! [ "$TENURE_EPOCH" -ge "$newest" ]; then
            echo "epoch $TENURE_EPOCH is stale: epoch $newest was seen" >&2
            exit 1
        fi
        echo "$TENURE_EPOCH" >"$target/epoch.new"
        mv "$target/epoch.new" "$target/epoch"
        mv "$part" "$target/$1"
        ln -sfn "$1" "$target/latest"
    ) 9>"$target/lock"
}

while :; do
    name=$(date -u +%Y%m%dT%H%M%SZ)-$TENURE_EPOCH.tar.gz
    tar -C "$source" -czf "$part" .
    publish "$name"
    echo "$target/$name"
    # In the background, because a shell handles no signal while it waits for a program.
    sleep "$interval" &
    wait $!
done
