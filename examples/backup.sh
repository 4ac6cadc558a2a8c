#!/bin/sh
# Backs a folder up once an hour, from one machine out of many. Start this on each of them:
#
#   tenure run --election ops/backup -- examples/backup.sh /srv/data /mnt/backups
#
# The archives are named after the time and the epoch, and "latest" points to the newest one. A leader
# that was frozen and goes on too late publishes nothing: a greater epoch has been in the folder.
set -eu

[ $# -ge 2 ] || { echo "usage: backup.sh SOURCE TARGET [SECONDS]" >&2; exit 64; }
source=$1 target=$2 interval=${3:-3600}
: "${TENURE_EPOCH:?is not set: start this with tenure run}"

part=$target/.part-$TENURE_EPOCH
trap 'rm -f "$part"' EXIT
trap 'exit 143' TERM INT

# Checks the epoch and publishes in one step, under a lock that all machines share (on NFS 4 flock
# reaches across machines; where it does not, keep the epoch somewhere that compares and puts).
publish() {
    (
        flock 9
        newest=0
        if [ -e "$target/epoch" ]; then newest=$(cat "$target/epoch"); fi
        # What can't be read may have been any epoch: a fence that is damaged lets nobody through.
        case $newest in
            '' | *[!0-9]*)
                echo "$target/epoch is no epoch: write there what \"tenure status\" shows" >&2
                exit 1
                ;;
        esac
        # Asked this way round: a number too great for the shell is no pass either.
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
    # In the background, because a shell hears no signal while it waits for a program.
    sleep "$interval" &
    wait $!
done
