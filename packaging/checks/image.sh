#!/usr/bin/env bash
# Builds the image and runs it: packaging/checks/dockerd.sh packaging/checks/image.sh
#
# dist must have the results of packaging/binary.sh. The images that compose.yaml names are made
# from programs of this machine, so nothing is fetched.
set -euo pipefail
cd "$(dirname "$0")/../.."

# shellcheck source=packaging/checks/compose.sh
source packaging/checks/compose.sh
files=(-f docker/compose.yaml)
locked=(--rm --network none --read-only --cap-drop ALL --security-opt no-new-privileges --user 65532:65532)

install_compose
work=$(mktemp -d)
trap 'compose down -v --remove-orphans > /dev/null 2>&1 || true; rm -rf "$work"' EXIT

# The image.
start=$SECONDS
docker build --network none -q -f docker/Dockerfile -t tenure . > "$work/build" 2>&1 || fail "$(cat "$work/build")"
took=$((SECONDS - start))
size=$(docker image inspect -f '{{.Size}}' tenure)
say "built in $took s, $((size / 1024)) KiB"
[ "$took" -lt 60 ] || fail "the build took $took s"
[ "$size" -le $((25 * 1024 * 1024)) ] || fail "the image has more than 25 MiB"
docker run "${locked[@]}" tenure --version

# What scratch lacks: the image runs without settings of the user or the names of the host.
docker run "${locked[@]}" --tmpfs /etc/tenure:uid=65532,mode=0700 tenure \
  init --name store --data-dir /data > "$work/init" || fail "init: $(cat "$work/init")"
grep -q '/etc/tenure/config.toml' "$work/init" || fail "the access of the administrator: $(cat "$work/init")"

# The base of the workers.
import_busybox "$work/base"

# One store, three workers.
DOCKER_BUILDKIT=0 compose up -d --build > "$work/up" 2>&1 || fail "$(cat "$work/up")"
wait_for 'a worker leads' has_leader
say "a worker leads after $((SECONDS - start)) s"
compose exec -T store /tenure list --namespace demo
compose exec -T store /tenure doctor --probe
[ "$(docker inspect -f '{{.State.Health.Status}}' "$(container store)")" = healthy ] || fail 'the store is not healthy'
root=$(docker inspect -f '{{.State.Pid}}' "$(container store)")
grep -E '^(Uid|CapEff|NoNewPrivs|VmRSS|RssAnon|RssFile)' "/proc/$root/status"
grep -q '^CapEff:[[:space:]]*0*$' "/proc/$root/status" || fail 'the store has capabilities'
# Of the mapped file, docker counts the pages that no other container has read before.
memory=$(docker stats --no-stream --format '{{.MemUsage}}' "$(container store)" | cut -d/ -f1)
say "the store takes $memory"
awk -v memory="$memory" 'BEGIN { exit !(memory ~ /KiB|MiB/ && (memory ~ /KiB/ || memory + 0 < 20)) }' || fail 'the store takes 20 MiB or more'

# A restart of the store, under a leader.
before=$(leads)
docker restart "$(container store)" > /dev/null
healthy() { [ "$(docker inspect -f '{{.State.Health.Status}}' "$(container store)")" = healthy ]; }
wait_for 'the store is healthy again' healthy
# Longer than a lease duration: without renewals the term would be over.
sleep 17
[ "$(leads)" = "$before" ] || fail "the leader changed: $before, then $(leads)"
say "the leader outlived a restart of the store: $before"

# An end in order.
docker stop -t 20 "$(container store)" > /dev/null
code=$(docker inspect -f '{{.State.ExitCode}}' "$(docker ps -aq --filter 'name=tenure-check[-_]store[-_]')")
[ "$code" = 0 ] || fail "the store ended with $code"
compose start store > /dev/null 2>&1
wait_for 'the store is healthy again' healthy

# The leader is killed, and another one leads.
first=$(leaders | tail -1 | cut -d' ' -f1)
docker kill "$(container "$first")" > /dev/null
changed() { [ "$(leads | wc -l)" -ge 2 ]; }
wait_for 'another worker leads' changed
say "$first was killed: $(leaders | tr '\n' ';')"

# The same files again: the one-shot services change nothing.
compose down > /dev/null 2>&1
compose up -d > "$work/again" 2>&1 || fail "$(cat "$work/again")"
wait_for 'a worker leads after a second up' has_leader

# Prometheus, as far as this machine has it. Grafana is in no package of Debian.
files+=(-f docker/compose.observe.yaml)
compose config > /dev/null
if prometheus=$(command -v prometheus); then
  copy_program "$prometheus" "$work/prometheus"
  import_image "$work/prometheus" prom/prometheus:v3.5.0 'ENTRYPOINT ["/bin/prometheus"]'
  compose up -d prometheus > "$work/observe" 2>&1 || fail "$(cat "$work/observe")"
  scraped() { curl -sf 'http://127.0.0.1:9090/api/v1/query?query=up' | grep -q '"job":"tenure"},"value":\[[0-9.]*,"1"\]'; }
  wait_for 'Prometheus reads the metrics' scraped
  say "Prometheus reads the metrics of the store"
fi
compose down -v > /dev/null 2>&1
say "all checks of the image passed"
