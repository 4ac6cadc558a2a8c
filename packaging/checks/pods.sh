#!/usr/bin/env bash
# Plays the cluster for the manifests of Kubernetes: packaging/checks/pods.sh [TENURE]
#
# A store runs with the configuration and the access file of the manifests, at the paths of its pod,
# beside an API server that gives out the keys of service account tokens. Workers with such tokens
# lead the elections of their own namespace and no other ones, and a leader goes on when the kubelet
# replaces its token. It needs root.
set -euo pipefail
tenure=$(realpath "${1:-${CARGO_TARGET_DIR:-target}/debug/tenure}")
cd "$(dirname "$0")/../.."

if ! { command -v ip && command -v openssl; } > /dev/null; then
  apt-get update
  apt-get install -y --no-install-recommends iproute2 openssl
fi
if [ "${2:-}" != inside ]; then
  # Ports, names and paths of their own.
  exec unshare --fork --kill-child --mount --net --pid --mount-proc "$0" "$tenure" inside
fi

fail() { echo "failed: $*" >&2; tail -n 5 "$work"/*.log >&2 || true; exit 1; }
wait_for() { # wait_for WHAT COMMAND...
  local what=$1; shift
  for _ in $(seq 300); do
    if "$@" > /dev/null 2>&1; then return; fi
    sleep 0.1
  done
  fail "$what"
}
ip link set lo up
work=$(mktemp -d)
root=$work/root
trap 'umount -l "$root/proc" "$root/usr" "$root/dev/null" || true; rm -rf "$work"' EXIT

# The API server: its certificate, its keys, and the tokens that it issues.
"$tenure" init --name kubernetes.default.svc --dir "$work/api" --data-dir "$work/none" \
  --context-file "$work/none.toml" > /dev/null
openssl genrsa -out "$work/signer.pem" 2048 2> /dev/null
cat > "$work/cluster.py" << 'END'
import base64, http.server, json, os, ssl, subprocess, sys, time

work = sys.argv[1]
url = lambda data: base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token(namespace, account, audience, seconds):
    now = int(time.time())
    pod = {"name": f"{account}-0", "uid": "0c1b4e52-6a40-4f0a-9c89-1d4b7c0a1e11"}
    claims = {"aud": [audience], "exp": now + seconds, "iat": now, "nbf": now, "jti": os.urandom(8).hex(),
              "iss": "https://kubernetes.default.svc.cluster.local",
              "kubernetes.io": {"namespace": namespace, "pod": pod, "node": {"name": "node-1"},
                                "serviceaccount": {"name": account, "uid": pod["uid"]}},
              "sub": f"system:serviceaccount:{namespace}:{account}"}
    text = url(b'{"alg":"RS256","kid":"one"}') + "." + url(json.dumps(claims).encode())
    sign = ["openssl", "dgst", "-sha256", "-sign", f"{work}/signer.pem"]
    return text + "." + url(subprocess.run(sign, input=text.encode(), capture_output=True, check=True).stdout)


class Api(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        # The API server wants a token of its own audience.
        own = open(f"{work}/root/var/run/secrets/kubernetes.io/serviceaccount/token").read()
        right = self.path == "/openid/v1/jwks" and self.headers["Authorization"] == f"Bearer {own}"
        n = subprocess.run(["openssl", "rsa", "-in", f"{work}/signer.pem", "-noout", "-modulus"],
                           capture_output=True, check=True).stdout.decode().strip().split("=")[1]
        key = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "one", "n": url(bytes.fromhex(n)), "e": "AQAB"}
        body = json.dumps({"keys": [key]}).encode() if right else b"{}"
        self.send_response(200 if right else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if sys.argv[2] == "token":
    print(token(sys.argv[3], sys.argv[4], sys.argv[5], int(sys.argv[6])), end="")
else:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{work}/api/tls/store.pem", f"{work}/api/tls/store.key")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 443), Api)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()
END
token() { python3 "$work/cluster.py" "$work" token "$@"; }

# The pod of the store: an empty root with the files of the manifests.
own=$root/var/run/secrets/kubernetes.io/serviceaccount
mkdir -p "$own" "$root"/{etc/tenure,etc/tenure-tls,data,tmp,proc,usr,dev}
mount -t proc proc "$root/proc"
mount --bind /usr "$root/usr"
for link in lib lib64 bin; do cp -P "/$link" "$root/" 2> /dev/null || ln -s "usr/$link" "$root/$link"; done
touch "$root/dev/null"
mount --bind /dev/null "$root/dev/null"
install -m 755 "$tenure" "$root/tenure"
printf '127.0.0.1 localhost kubernetes.default.svc tenure.tenure.svc\n' > "$root/etc/hosts"
printf 'passwd: files\nhosts: files dns\n' > "$root/etc/nsswitch.conf"
token tenure tenure https://kubernetes.default.svc.cluster.local 3600 > "$own/token"
cp "$work/api/tls/ca.pem" "$own/ca.crt"
install -m 440 deploy/kubernetes/base/access.toml deploy/kubernetes/base/tenure.toml "$root/etc/tenure/"
"$tenure" init --name tenure.tenure.svc --dir "$work/init" --data-dir "$work/none" \
  --context-file "$work/none2.toml" > /dev/null
install -m 444 "$work/init/tls/store.pem" "$root/etc/tenure-tls/tls.crt"
install -m 440 "$work/init/tls/store.key" "$root/etc/tenure-tls/tls.key"
install -m 444 "$work/init/tls/ca.pem" "$root/ca.crt"
chown -R 65532:65532 "$root/data"
chgrp -R 65532 "$root/etc/tenure" "$root/etc/tenure-tls"

python3 "$work/cluster.py" "$work" serve > "$work/api.log" 2>&1 &
pod() { chroot --userspec=65532:65532 "$root" "$@"; }
wait_for 'the API server' bash -c 'exec 3<> /dev/tcp/127.0.0.1/443'
pod /tenure serve --config /etc/tenure/tenure.toml > "$work/store.log" 2>&1 &
wait_for 'the store is ready' pod /tenure doctor --probe

# Workers, with tokens as the kubelet keeps them: a link that it replaces.
kubelet() { # kubelet FOLDER SECONDS makes a token for billing/nightly
  mkdir -p "$root/token/$1"
  token billing nightly tenure "$2" > "$root/token/$1/token"
  chmod 444 "$root/token/$1/token"
}
run() { # run TOKEN ELECTION ARGUMENTS...
  pod /tenure run --server https://tenure.tenure.svc:7400 --ca-file /ca.crt --token-file "$1" \
    --election "$2" --lease-duration 6s "${@:3}"
}
kubelet first 12
ln -s first "$root/token/..data"
run /token/..data/token billing/nightly -- /tenure watch --server https://tenure.tenure.svc:7400 \
  --ca-file /ca.crt --token-file /token/..data/token billing/nightly > "$work/leader.log" 2>&1 &
status() {
  pod /tenure status billing/nightly --json --server https://tenure.tenure.svc:7400 --ca-file /ca.crt \
    --token-file "/token/$1/token" | tr -d ' \n'
}
led() { status first | grep -q '"owner":"k8s:billing/nightly"'; }
wait_for 'a pod of billing leads billing/nightly' led
epoch=$(status first | sed 's/.*"epoch":\([0-9]*\).*/\1/')
code=0
run /token/..data/token ops/nightly --once -- /tenure --version > "$work/foreign.log" 2>&1 || code=$?
[ "$code" = 77 ] || fail "a pod of billing got the code $code for ops/nightly"

# The kubelet's way: another folder, and a link that changes in one step.
kubelet second 3600
ln -s second "$root/token/..data_tmp"
mv -T "$root/token/..data_tmp" "$root/token/..data"
# The first token ends after 12 s, and a lease lasts 6 s.
sleep 14
status first > "$work/late.log" 2>&1 && fail 'a token counts beyond its end'
status second | grep -q "\"epoch\":$epoch," || fail "the leader changed: $(status second)"
status second | grep -q '"state":"leased"' || fail "nobody leads: $(status second)"
echo '   tokens of service accounts have the rights of the manifests, and a leader outlives their rotation'
