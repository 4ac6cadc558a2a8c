//! The commands of the pages, as a reader types them.
//!
//! All code blocks of the language `sh` run, on all pages. Each block has a machine of its own: a
//! folder, a network, processes and a copy of `/etc`, so that the commands of a page work as they are
//! written, with its ports, paths and names of hosts. [`LEFT`] lists the commands that do not run
//! here, and why.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::tempdir;
use tenure_tests::needs::{can_run, unshare};
use tenure_tests::process::{built, output, tenure};

use crate::{ROOT, files};

/// Commands that do not run here: the beginning of the page's path, a text in the command, and why.
const LEFT: &[(&str, &str, &str)] = &[
    (
        "",
        "cargo ",
        "builds of the workspace, or the registry of crates",
    ),
    ("", "docker ", "packaging/checks/image.sh runs them"),
    ("", "packaging/", ".ci/release runs them"),
    ("", "sudo apt ", "packaging/checks/deb.sh runs them"),
    ("", "systemctl ", "packaging/checks/deb.sh runs them"),
    ("", "apt-get ", "they need a network"),
    ("", "pip install", "they need a network"),
    ("", "npm ", "they need a network"),
    ("", "strace ", "measurements"),
    ("", "callgrind", "measurements"),
    (
        "",
        "OTEL_EXPORTER",
        "another build; tests/otel of the command runs it",
    ),
    (
        "docs/azure.md",
        "venv/bin/python",
        "tests/azure runs the example",
    ),
    ("docs/azure.md", "myaccount", "an account of Azure"),
    ("docs/azure.md", "AZURE_BLOB_SAS", "an account of Azure"),
    (
        "docs/azure.md",
        "--config tenure.toml",
        "an account of Azure",
    ),
    (
        "docs/cluster.md",
        "",
        "several machines; tests/cluster does the same",
    ),
    (
        "docs/comparison.md",
        "",
        "several minutes; tests/lab does the same",
    ),
    (
        "docs/kubernetes-lease.md",
        "",
        "a Kubernetes cluster; tests/kubernetes has a fake of one",
    ),
    ("docs/languages.md", "", "tests/api/samples.rs runs it"),
    (
        "docs/operations.md",
        "--strategy bully",
        "three machines; tests/bully does the same",
    ),
    (
        "docs/testing.md",
        "",
        "tests of this workspace, and programs from a network",
    ),
    (
        "docs/papers/",
        "tenure-lab compare",
        "several minutes; tests/lab does the same",
    ),
];

/// Pages whose blocks run one after the other on one machine.
const TOGETHER: &[&str] = &["docs/first-minute.md", "docs/tutorial.md"];

/// What a page takes for granted: the beginning of its path, a text in the block, and commands.
const BEFORE: &[(&str, &str, &str)] = &[
    ("docs/migrate-", "tenure run", "tenure serve --home memory"),
    (
        "docs/operations.md",
        "./nightly.sh --all",
        "tenure serve --home memory",
    ),
    (
        "docs/operations.md",
        "tenure backup",
        "tenure serve --data-dir /var/lib/tenure",
    ),
    (
        "docs/metrics.md",
        "tenure token",
        "tenure init --name store.lan",
    ),
    (
        "docs/operations.md",
        "--tls-certificate",
        "tenure init --name store.example.com
         tenure token create worker --role candidate --namespace billing --output token
         cp /etc/tenure/tls/{store.pem,store.key,ca.pem} .
         export TENURE_TOKEN_FILE=$PWD/token",
    ),
    (
        "docs/links.md",
        "sites.txt",
        "printf '1 2\\n2 3 dead\\n3 1 one-way\\n1 4\\n2 4\\n' > sites.txt",
    ),
];

/// What a page must print: the beginning of its path, and a text.
const PRINTED: &[(&str, &str)] = &[
    ("docs/first-minute.md", "leading with epoch "),
    ("docs/tutorial.md", "a report under epoch "),
    ("docs/migrate-", "work under epoch "),
];

/// The beginning of each script. A `tenure serve`, `run` or `watch` on a line of its own gets a
/// terminal of its own, and the next command waits until it has printed what a reader waits for.
const MACHINE: &str = r#"
set -euo pipefail
ip link set lo up
cp -r /etc etc 2> /dev/null || true
mount --bind etc /etc
mount -t tmpfs tmpfs /var/lib
mkdir -p /etc/prometheus
echo '127.0.0.1 localhost store.lan store.example.com' > /etc/hosts
terminals=0
sudo() { "$@"; }
tenure() {
  local ready
  if [ "$BASHPID" != $$ ]; then exec tenure "$@"; fi
  case "$* " in
    *' --once '*) command tenure "$@"; return ;;
    serve\ *) ready='listening on ' ;;
    run\ *) ready='under epoch ' ;;
    watch\ *) ready=. ;;
    *) command tenure "$@"; return ;;
  esac
  terminals=$((terminals + 1))
  command tenure "$@" > "terminal-$terminals" 2>&1 &
  for _ in $(seq 400); do
    if grep -q "$ready" "terminal-$terminals"; then return; fi
    kill -0 $! 2> /dev/null || break
    sleep 0.05
  done
  cat "terminal-$terminals"
  echo "not ready: tenure $*"
  return 1
}
"#;

/// A program of the reader. It runs for as long as the next commands of a page need on a busy
/// machine.
const PROGRAM: &str = "#!/bin/sh\necho \"work under epoch $TENURE_EPOCH\"\nsleep 3\n";

/// A module that a program of the reader imports.
const MODULE: &str = "def send_invoices(epoch):\n    print(f\"work under epoch {epoch}\")\n";

#[test]
fn the_commands_of_all_pages_work() {
    let test = "the_commands_of_all_pages_work";
    let has_namespaces = unshare()
        .args(["ip", "link", "set", "lo", "up"])
        .status()
        .is_ok_and(|status| status.success());
    if !can_run(test, "namespaces of Linux (root), and ip", has_namespaces) {
        return;
    }
    let (mut pages, mut ran) = (0, 0);
    for (page, text) in pages_with_commands() {
        let blocks = blocks(&text, "sh");
        let kept: Vec<String> = blocks.iter().map(|block| run_here(&page, block)).collect();
        let machines = if TOGETHER.contains(&page.as_str()) {
            vec![kept.concat()]
        } else {
            kept
        };
        let mut printed = String::new();
        for commands in machines.iter().filter(|commands| !commands.is_empty()) {
            printed += &run(&page, &text, commands);
            ran += 1;
        }
        for (_, expected) in PRINTED.iter().filter(|it| page.starts_with(it.0)) {
            assert!(
                printed.contains(expected),
                "{page}: no {expected:?}: {printed}"
            );
        }
        pages += 1;
    }
    eprintln!("{ran} machines ran the commands of {pages} pages");
    assert!(ran > 15, "only {ran} blocks ran");
}

#[test]
fn every_exception_is_about_a_command_of_a_page() {
    let pages = pages_with_commands();
    let commands = pages.iter().flat_map(|(page, text)| {
        let blocks = blocks(text, "sh").into_iter();
        blocks.flat_map(move |block| {
            commands(&block)
                .map(move |it| (page, it))
                .collect::<Vec<_>>()
        })
    });
    let commands: Vec<_> = commands.collect();
    for left in LEFT {
        let is_used = commands
            .iter()
            .any(|(page, command)| is_left(left, page, command));
        assert!(is_used, "no command of a page is left because of {left:?}");
    }
    for (page, text, _) in BEFORE {
        let is_used = pages
            .iter()
            .any(|it| it.0.starts_with(page) && it.1.contains(text));
        assert!(is_used, "no page {page} has {text:?}");
    }
}

#[test]
fn the_blocks_of_a_language_and_their_commands_are_found() {
    let page = "a\n```sh\nb\n```\nc\n```text\nd\n```\n```sh\ne \\\n  f\ng\n```\n";
    assert_eq!(blocks(page, "sh"), ["b\n", "e \\\n  f\ng\n"]);
    let commands: Vec<String> = commands("e \\\n  f\ng\n").collect();
    assert_eq!(commands, ["e \\\n  f\n", "g\n"]);
    assert_eq!(run_here("docs/a.md", "cargo build\nb\n"), "b\n");
}

/// The pages that have commands, by their paths in the repository.
fn pages_with_commands() -> Vec<(String, String)> {
    let pages = files(Path::new(ROOT), ".md").into_iter();
    let mut pages: Vec<_> = pages
        .filter(|(_, text)| !blocks(text, "sh").is_empty())
        .map(|(path, text)| {
            let path = path.strip_prefix(ROOT).expect("a file of the repository");
            (path.display().to_string(), text)
        })
        .collect();
    pages.sort();
    assert!(pages.len() > 20, "{pages:?}");
    pages
}

/// The code blocks of a page with this language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}");
    let (mut blocks, mut block) = (Vec::new(), None::<String>);
    let mut is_inside = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_inside = !is_inside;
            blocks.extend(block.take());
            if is_inside && line == fence {
                block = Some(String::new());
            }
        } else if let Some(block) = &mut block {
            block.push_str(line);
            block.push('\n');
        }
    }
    blocks
}

/// The commands of a block. A line that ends with a backslash continues on the next one.
fn commands(block: &str) -> impl Iterator<Item = String> {
    let mut commands = vec![String::new()];
    for line in block.lines() {
        let command = commands.last_mut().expect("a command");
        command.push_str(line);
        command.push('\n');
        if !line.ends_with('\\') {
            commands.push(String::new());
        }
    }
    commands.into_iter().filter(|command| !command.is_empty())
}

fn is_left((of, text, _): &(&str, &str, &str), page: &str, command: &str) -> bool {
    page.starts_with(of) && command.contains(text)
}

/// The commands of this block without those that are left.
fn run_here(page: &str, block: &str) -> String {
    let kept = commands(block).filter(|it| !LEFT.iter().any(|left| is_left(left, page, it)));
    let kept: Vec<String> = kept.collect();
    let is_comment = |command: &String| command.starts_with('#');
    if kept.iter().all(is_comment) {
        return String::new();
    }
    kept.concat()
}

/// Runs these commands of a page on a machine of its own. Returns what was printed.
fn run(page: &str, text: &str, commands: &str) -> String {
    let folder = tempdir().expect("a folder");
    let bin = folder.path().join("bin");
    fs::create_dir_all(&bin).expect("a folder");
    let programs = [
        "nightly.sh",
        "nightly",
        "controller",
        "worker",
        "bin/java",
        "bin/your-program",
    ];
    for program in programs {
        let path = folder.path().join(program);
        fs::write(&path, PROGRAM).expect("a program");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a program");
    }
    fs::write(folder.path().join("billing.py"), MODULE).expect("a module");
    // A program that the page has with its name.
    for block in blocks(text, "python") {
        let name = block
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("# "));
        if let Some(name) = name.filter(|name| name.ends_with(".py")) {
            fs::write(folder.path().join(name), &block).expect("a program");
        }
    }
    std::os::unix::fs::symlink(format!("{ROOT}/deploy"), folder.path().join("deploy"))
        .expect("a link");
    for program in [tenure(), built("tenure-lab")] {
        let name = program.file_name().expect("a program");
        std::os::unix::fs::symlink(&program, bin.join(name)).expect("a link");
    }

    let before = BEFORE
        .iter()
        .filter(|it| page.starts_with(it.0) && commands.contains(it.1));
    let before: Vec<&str> = before.map(|it| it.2).collect();
    // A folder at the root would be one of this machine.
    let commands = commands.replace("/backups/", "backups/");
    let script = format!(
        "{MACHINE}\n{}\nmkdir backups\n{commands}\ncat terminal-* 2> /dev/null || true\n",
        before.join("\n")
    );
    let path = std::env::var("PATH").unwrap_or_default();
    let mut bash = unshare();
    bash.args(["setsid", "bash", "-c", &script])
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", format!("{}:{path}", bin.display()))
        .env("HOME", folder.path())
        .env("XDG_CONFIG_HOME", folder.path().join("home"));
    let output = output(&mut bash);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{page}:\n{commands}\n{stdout}\n{stderr}"
    );
    stdout
}
