#!/usr/bin/env bash
# Checks the manifests by the rules of checkov: packaging/checks/checkov.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

venv=${CARGO_TARGET_DIR:-target}/checkov
if ! [ -x "$venv/bin/checkov" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check checkov==3.3.30
fi
command -v kubectl > /dev/null || apt-get install -y --no-install-recommends kubernetes-client

# No limit of the processor (CKV_K8S_11): it would delay renewals. The registry, the digest and the
# pull policy of the image (CKV_K8S_43, CKV_K8S_15) are those of the reader.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for folder in base overlays/example-worker; do
  kubectl kustomize "deploy/kubernetes/$folder" > "$work/$(basename "$folder").yaml"
done
"$venv/bin/checkov" --directory "$work" --framework kubernetes --compact --quiet \
  --skip-check CKV_K8S_11,CKV_K8S_43,CKV_K8S_15 --skip-download
echo '   checkov has no complaint'
