#!/usr/bin/env bash
# Checks the manifests: packaging/kubernetes.sh [PYTHON [TENURE]]
#
# PYTHON has the packages of packaging/requirements.txt, and TENURE is the command that checks the
# configuration and the access file.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python3}
tenure=${2:-${CARGO_TARGET_DIR:-target}/debug/tenure}

if ! command -v kubectl > /dev/null; then
  apt-get update
  apt-get install -y --no-install-recommends kubernetes-client
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r deploy/kubernetes "$work/kubernetes"
# Kustomize before 2.1, as in Debian 12, takes folders under the key "bases" only.
if kubectl version --client --short 2> /dev/null | grep -qE 'v1\.(1[0-9]|20)\.'; then
  for file in "$work"/kubernetes/overlays/*/kustomization.yaml; do
    { sed '/^resources:/,$d' "$file"
      echo 'bases:'; grep -E '^  - \.\.' "$file" || true
      echo 'resources:'; sed '1,/^resources:/d' "$file" | grep -vE '^  - \.\.'
    } > "$file.new"
    sed -i '/^bases:$/{N;/\nresources:/s/^bases:\n//}' "$file.new"
    mv "$file.new" "$file"
  done
fi

for folder in base overlays/tls-cert-manager overlays/monitoring overlays/example-worker; do
  rendered=$work/$(basename "$folder").yaml
  kubectl kustomize "$work/kubernetes/$folder" > "$rendered"
  "$python" packaging/manifests.py check "$rendered"
done

# The files of the ConfigMap, with a certificate of their own.
"$tenure" init --name tenure.tenure.svc --dir "$work/init" --data-dir "$work/data" \
  --context-file "$work/context.toml" > /dev/null
install -m 640 deploy/kubernetes/base/access.toml "$work/access.toml"
sed "s#/etc/tenure/#$work/#; s#/etc/tenure-tls/tls.crt#$work/init/tls/store.pem#
  s#/etc/tenure-tls/tls.key#$work/init/tls/store.key#" deploy/kubernetes/base/tenure.toml > "$work/tenure.toml"
"$tenure" access check "$work/access.toml" > /dev/null
"$tenure" config check "$work/tenure.toml" > /dev/null
echo '   the store accepts its configuration and its access file'
