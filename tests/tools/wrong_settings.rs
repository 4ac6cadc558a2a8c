//! Errors in files, variables and flags that every command finds in the same way.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tenure_tests::process::{command, output, run};

use super::{code, stderr, stdout};

/// The commands that read a configuration file, without its name, which comes after `--config`.
const READERS: &[&[&str]] = &[
    &["serve", "--engine", "memory", "--listen", "127.0.0.1:0"],
    &["run", "--election", "a/b"],
    &["config", "show"],
    &["list"],
    &["status", "a/b"],
    &["history", "a/b"],
    &["watch", "a/b"],
    &["break", "a/b"],
    &["handover", "a/b", "--to", "c"],
    &["peers"],
    &["doctor"],
    &["doctor", "--probe"],
    &["cluster", "status"],
    &["cluster", "init"],
    &["cluster", "recover", "--yes"],
    &["dashboard"],
    &["backup", "copy"],
    &["restore", "copy"],
];

/// Runs each command that reads this file.
fn readers(file: &Path, check: impl Fn(&[&str], &Output)) {
    let file = file.to_str().unwrap();
    for reader in READERS {
        let mut arguments = [reader, &["--config", file][..]].concat();
        if reader[0] == "run" {
            arguments.extend(["--", "true"]);
        }
        check(&arguments, &run(&arguments));
    }
    for arguments in [["config", "check", file], ["context", "add", "x"]] {
        let arguments = match arguments[0] {
            "context" => vec!["context", "add", "x", file],
            _ => arguments.to_vec(),
        };
        check(&arguments, &run(&arguments));
    }
}

#[test]
fn no_command_starts_with_a_table_that_it_does_not_know() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.toml");
    fs::write(
        &path,
        "servers = [\"http://127.0.0.1:1\"]\n[acess]\nfile = \"access.toml\"\n",
    )
    .unwrap();
    readers(&path, |arguments, output| {
        let said = stderr(output);
        assert_eq!(code(output), 2, "{arguments:?}: {said}");
        let expected = "tenure.toml:2: unknown table [acess]; did you mean [access]?";
        assert!(said.contains(expected), "{arguments:?}: {said}");
    });
}

#[test]
fn a_misspelt_table_of_a_store_ends_its_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.toml");
    for (text, told) in [
        ("[Access]\nfile = \"x\"", "did you mean [access]?"),
        ("acess.file = \"x\"", "did you mean [access]?"),
        ("[audits]\nrequired = true", "did you mean [audit]?"),
        ("[tsl]\ncertificate = \"x\"", "did you mean [tls]?"),
        ("[server]\nlisten = \"x\"", "did you mean [serve]?"),
        (
            "[limits]\nmax_waiting = 1",
            "unknown table [limits]; known are [",
        ),
        ("[audti]", "did you mean [audit]?"),
        ("[metrcs]", "did you mean [metrics]?"),
        ("access_file = \"x\"", "unknown key access_file"),
        (
            "trusted_proxies = [\"10.0.0.1\"]",
            "did you mean trusted_proxies in [access]?",
        ),
    ] {
        fs::write(&path, text).unwrap();
        let file = path.to_str().unwrap();
        let serve = run(&["serve", "--engine", "memory", "--config", file]);
        assert_eq!(code(&serve), 2, "{text}: {serve:?}");
        let said = stderr(&serve);
        assert!(
            said.contains("tenure.toml:1: unknown") && said.contains(told),
            "{said}"
        );
        assert_eq!(stderr(&run(&["config", "check", file])), said);
    }
}

#[test]
fn a_check_refuses_what_the_start_refuses_with_the_same_words() {
    let folder = tempfile::tempdir().unwrap();
    let name = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(name("no-pem"), "nothing").unwrap();
    fs::write(name("url"), "host=db.example user=tenure").unwrap();
    let cluster = "[cluster]\nserver = \"a\"\nadvertise = \"https://a\"\n";
    let etcd = format!("[serve]\nengine = \"etcd\"\n{cluster}[etcd]\n");
    let postgres = format!("[serve]\nengine = \"postgres\"\n{cluster}[postgres]\n");
    let (pem, url) = (name("no-pem"), name("url"));
    for text in [
        "[serve]\nlisten = \"0.0.0.0:0\"".to_owned(),
        "[serve]\nlisten = \"0.0.0.0:0\"\n[access]\nallow_plain_http = true".to_owned(),
        "[access]\nfile = \"/no/such/access.toml\"".to_owned(),
        "[access]\nfile = \"\"".to_owned(),
        format!("[access]\nfile = {pem:?}"),
        format!("[serve]\ndata_dir = {pem:?}"),
        "[audit]\nfile = \"/no/such/folder/audit.log\"".to_owned(),
        format!("[audit]\nfile = {:?}", folder.path()),
        "[audit]\nlevel = \"all\"".to_owned(),
        "[audit]\nrequired = true".to_owned(),
        "[metrics]\nlisten = \"here\"".to_owned(),
        "[azure]\nbehind_tls = true\nbearer_keys = \"/no/such\"".to_owned(),
        "[tls]\ncertificate = \"\"\nkey = \"\"".to_owned(),
        format!("[tls]\ncertificate = {pem:?}\nkey = {pem:?}"),
        format!("{etcd}endpoints = [\"http://10.0.0.1:2379\"]"),
        format!("{etcd}endpoints = [\"https://10.0.0.1:2379\"]\nca_file = {pem:?}"),
        format!("{postgres}url = \"host=db.example user=tenure\""),
        format!("{postgres}url = \"user=tenure sslmode=verify-full\""),
        format!("{postgres}url_file = {url:?}"),
        format!("{postgres}url = \"host=db user=tenure sslmode=verify-full\"\nca_file = {pem:?}"),
    ] {
        let path = folder.path().join("tenure.toml");
        fs::write(&path, &text).unwrap();
        let file = path.to_str().unwrap();
        let last = |output: &Output| {
            let said = stderr(output);
            let from = said.find("tenure: ").unwrap_or_default();
            said[from..].to_owned()
        };
        let start = output(command(&["serve", "--config", file]).current_dir(&folder));
        let check = run(&["config", "check", file]);
        assert_eq!(code(&start), 2, "{text}: {start:?}");
        assert_eq!((code(&check), last(&check)), (2, last(&start)), "{text}");
        assert!(!folder.path().join("tenure-data").exists(), "{text}");
    }
    let file = folder.path().join("tenure.toml");
    for setting in [
        "status_listen = \"here\"",
        "stop_signal = \"KILL\"",
        "stop_signal = \"\"",
        "stop_signal = 9",
        "stop_signal = -1",
        "hosts = [\"a b\"]",
        "hosts = [\"http://x\"]",
        "hosts = [\"[::1]\"]",
        "hosts = [1]",
        "hosts = 1",
    ] {
        fs::write(&file, format!("election = \"a\"\n{setting}\n")).unwrap();
        let file = file.to_str().unwrap();
        let start = run(&["run", "--config", file, "--", "true"]);
        assert_eq!(code(&start), 2, "{setting}: {start:?}");
        for reader in [&["check", file][..], &["show", "--config", file]] {
            let checked = run(&[&["config"], reader].concat());
            assert_eq!(stderr(&checked), stderr(&start), "{setting}");
        }
    }
}

#[test]
fn known_variables_of_other_commands_are_not_reported_as_unknown() {
    for (name, value) in [
        ("TENURE_CONTEXT", "x"),
        ("TENURE_ACCESS_FILE", "/dev/null"),
        ("TENURE_LOG_FORMAT", "text"),
        ("TENURE_LOG", "info"),
    ] {
        let output = output(command(&["config", "show"]).env(name, value));
        assert_eq!(stderr(&output), "", "{name}");
    }
}

#[test]
fn a_process_that_logs_json_ends_with_one_json_line_about_the_error() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = folder.path().join("wrong.toml");
    fs::write(&wrong, "election = = 1\n").unwrap();
    let wrong = wrong.to_str().unwrap();
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = busy.local_addr().unwrap().to_string();
    let serve = ["serve", "--engine", "memory", "--listen", &busy];
    let run = ["run", "--election", "a", "--server", "http://127.0.0.1:1"];
    for (arguments, exit_code, part) in [
        (serve.to_vec(), 1, "in use"),
        (vec!["serve", "--config", wrong], 2, "wrong.toml"),
        (vec!["serve", "--listn", "x"], 2, "--listn"),
        (
            vec!["serve", "--log-format", "json", "--engine", "disk"],
            2,
            "disk",
        ),
        (
            vec!["run", "--config", wrong, "--", "true"],
            2,
            "wrong.toml",
        ),
        (
            [&run[..], &["--", "/no/such/program"]].concat(),
            127,
            "/no/such/program",
        ),
        (
            [&run[..], &["--priority", "x", "--", "true"]].concat(),
            2,
            "priority",
        ),
        (
            vec!["status", "a", "--server", "http://127.0.0.1:1"],
            69,
            "127.0.0.1:1",
        ),
    ] {
        let mut command = command(&arguments);
        if !arguments.contains(&"--log-format") {
            command.env("TENURE_LOG_FORMAT", "json");
        }
        let output = output(&mut command);
        assert_eq!(code(&output), exit_code, "{arguments:?}: {output:?}");
        assert_eq!(stdout(&output), "");
        let said = stderr(&output);
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line:?}"));
        let lines: Vec<Value> = said.lines().map(parse).collect();
        let last = lines.last().expect("a line");
        assert_eq!(
            (&last["level"], &last["exit_code"]),
            (&"ERROR".into(), &exit_code.into())
        );
        let error = last["error"].as_str().expect("an error");
        assert!(error.contains(part), "{error}");
    }
}
