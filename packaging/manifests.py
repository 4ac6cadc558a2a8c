"""Checks rendered manifests for Kubernetes, and makes the rules for the Prometheus operator.

    manifests.py check FILE...   strict schemas, restricted pods, selectors, and the alerts
    manifests.py rule            prints overlays/monitoring/prometheus-rule.yaml
"""

import sys

import yaml

RULES = "deploy/prometheus/rules.yaml"
RULE = "deploy/kubernetes/overlays/monitoring/prometheus-rule.yaml"
# Kinds of operators, for which there is no schema here, with the keys that they need.
CUSTOM = {
    "Issuer": [],
    "Certificate": ["secretName", "issuerRef"],
    "ServiceMonitor": ["selector", "endpoints"],
    "PrometheusRule": ["groups"],
}


def rule():
    head = (f"# The alerts of {RULES}. Do not change this copy: packaging/manifests.py rule makes it.\n"
            "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: tenure\n"
            "  namespace: tenure\n  labels:\n    app.kubernetes.io/name: tenure\nspec:\n")
    lines = open(RULES).read().splitlines()
    groups = lines[lines.index("groups:"):]
    return head + "\n".join(f"  {line}" if line else line for line in groups) + "\n"


def problems(document, documents):
    import kubernetes_validate.utils as schemas

    kind, name = document["kind"], document["metadata"]["name"]
    spec = document.get("spec", {})
    if kind in CUSTOM:
        yield from (f"has no {key}" for key in CUSTOM[kind] if key not in spec)
        if kind == "ServiceMonitor":
            selects = spec["selector"]["matchLabels"].items()
            services = [it["metadata"]["name"] for it in documents
                        if it["kind"] == "Service" and selects <= it["metadata"]["labels"].items()]
            if len(services) != 1:
                yield f"selects {len(services)} Services, and a store behind two is scraped twice: {services}"
        return
    try:
        schemas.validate(document, schemas.latest_version(), strict=True)
    except Exception as error:
        yield str(error)
    if kind not in ("StatefulSet", "Deployment"):
        return
    template = spec["template"]
    pod = template["spec"]
    own = pod.get("securityContext", {})
    if own.get("runAsNonRoot") is not True:
        yield "may run as root"
    if own.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield "has no seccomp profile"
    if pod.get("automountServiceAccountToken") is not False:
        yield "gets a token that it does not ask for"
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(key):
            yield f"has {key}"
    for container in pod["containers"]:
        context = container.get("securityContext", {})
        if context.get("allowPrivilegeEscalation") is not False:
            yield f"{container['name']} may gain privileges"
        if context.get("readOnlyRootFilesystem") is not True:
            yield f"{container['name']} has a writable root"
        if context.get("capabilities") != {"drop": ["ALL"]}:
            yield f"{container['name']} has capabilities"
        if not all(key in container for key in ("livenessProbe", "readinessProbe", "resources")):
            yield f"{container['name']} has no probes or resources"
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        volumes |= {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", [])}
        for mount in container.get("volumeMounts", []):
            if mount["name"] not in volumes:
                yield f"{container['name']} mounts {mount['name']}, which is no volume"
    labels = template["metadata"]["labels"]
    if not spec["selector"]["matchLabels"].items() <= labels.items():
        yield "does not select its own pods"
    for other in documents:
        if other["kind"] == "Service" and other["metadata"]["namespace"] == document["metadata"]["namespace"]:
            if not other["spec"]["selector"].items() <= labels.items():
                yield f"the Service {other['metadata']['name']} does not select the pods of {name}"


def check(paths):
    found = []
    for path in paths:
        documents = [document for document in yaml.safe_load_all(open(path)) if document]
        for document in documents:
            place = f"{path}: {document['kind']} {document['metadata']['name']}"
            found += [f"{place}: {problem}" for problem in problems(document, documents)]
        print(f"   {path.rsplit('/', 1)[-1]}: {len(documents)} objects")
    if open(RULE).read() != rule():
        found.append(f"{RULE} differs from {RULES}: python3 packaging/manifests.py rule > {RULE}")
    if found:
        sys.exit("\n".join(found))


if sys.argv[1] == "rule":
    sys.stdout.write(rule())
else:
    check(sys.argv[2:])
