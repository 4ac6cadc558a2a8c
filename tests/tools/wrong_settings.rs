//! Errors in files, variables and flags that every command finds in the same way.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tenure_tests::process::{Process, command, output, run};
use tenure_tests::wait_for;

use super::{code, json_of, stderr, stdout};

/// The commands that read a configuration file, without its name, which comes after `--config`.
const READERS: &[&[&str]] = &[
    &["serve", "--home", "memory", "--listen", "127.0.0.1:0"],
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
fn a_check_refuses_what_the_start_refuses_with_the_same_words() {
    let folder = tempfile::tempdir().unwrap();
    let name = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(name("no-pem"), "nothing").unwrap();
    fs::write(name("url"), "postgres://tenure@db.example/d").unwrap();
    let cluster = "[cluster]\nserver = \"a\"\nadvertise = \"https://a\"\n";
    let over = |home: &str| format!("[serve]\nhome = {home:?}\n{cluster}");
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
        over("etcd://10.0.0.1:2379"),
        over(&format!("etcds://10.0.0.1:2379?ca_file={pem}")),
        over("etcds://tenure@10.0.0.1"),
        over("etcds://"),
        over("etcds://10.0.0.1:x"),
        over("etcds://10.0.0.1?password_file=/dev/null"),
        over("etcds://10.0.0.1?key=/dev/null"),
        over("postgres://tenure@127.0.0.1/d?schema=pg_tenure"),
        over("postgres://tenure@db.example/d"),
        over("postgres://tenure:word@127.0.0.1/d"),
        over("postgres://?user=tenure&sslmode=verify-full"),
        over(&format!(
            "postgres://tenure@db/d?sslmode=verify-full&sslrootcert={pem}"
        )),
        format!("[serve]\nhome_file = {url:?}\n{cluster}"),
        "[serve]\nengine = \"memory\"".to_owned(),
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
fn etcd_on_another_machine_has_https_or_a_setting_that_permits_http() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.toml");
    let check = |home: &str| {
        let text = format!("[serve]\nhome = {home:?}\n[cluster]\nserver = \"a\"\n");
        fs::write(&path, text).unwrap();
        run(&["config", "check", path.to_str().unwrap()])
    };
    let remote = "etcd://127.0.0.1:1,etcd-1:2379";
    let refused = check(remote);
    assert_eq!(code(&refused), 2, "{refused:?}");
    let said = stderr(&refused);
    assert!(
        said.contains("sent to etcd-1") && said.contains("allow_plain_http"),
        "{said}"
    );
    for home in [
        &format!("{remote}?allow_plain_http=true"),
        "etcd://127.0.0.1:1,[::1]:1,localhost:1",
        "etcds://etcd-1:2379",
    ] {
        let fine = check(home);
        assert_eq!(code(&fine), 0, "{home}: {fine:?}");
    }
}

#[test]
fn a_variable_without_a_value_counts_as_unset_for_settings_and_flags() {
    let show = |variables: &[String]| {
        let mut show = command(&["config", "show", "--json"]);
        show.envs(variables.iter().map(|name| (name, "")));
        let output = output(&mut show);
        assert_eq!(code(&output), 0, "{output:?}");
        assert_eq!(stderr(&output), "");
        json_of(&output)
    };
    let plain = show(&[]);
    let of_key = |key: &str| {
        let key = key.strip_prefix("serve.").unwrap_or(key);
        format!("TENURE_{}", key.replace('.', "_").to_uppercase())
    };
    let tables = plain.as_object().unwrap().iter();
    let keys = tables.flat_map(|(table, keys)| {
        let keys = keys.as_object().into_iter().flatten();
        keys.map(move |(key, _)| match &**table {
            "candidate" => key.clone(),
            table => format!("{table}.{key}"),
        })
    });
    let mut variables: Vec<String> = keys
        .filter(|key| key != "metadata")
        .map(|key| of_key(&key))
        .collect();
    assert!(variables.len() > 100, "{variables:?}");
    let others = [
        "TENURE_SERVER",
        "TENURE_LOG",
        "TENURE_LOG_FORMAT",
        "TENURE_CONTEXT",
    ];
    variables.extend(others.map(String::from));
    // The default of the candidate is another one at each start.
    let known = |mut shown: Value| {
        shown["candidate"]["candidate"] = Value::Null;
        shown
    };
    assert_eq!(known(show(&variables)), known(plain));

    let mut serve = command(&["serve", "--home", "memory", "--listen", "127.0.0.1:0"]);
    let mut store = Process::spawn(serve.envs(variables.iter().map(|name| (name, ""))));
    wait_for("the store", || {
        assert!(!store.has_ended(), "{}", store.stderr());
        store.stdout().contains("listening on http").then_some(())
    });
    let mut list = command(&["token", "list"]);
    let said = stderr(&output(list.env("TENURE_ACCESS_FILE", "")));
    assert!(said.contains("/etc/tenure/access.toml"), "{said}");
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
fn a_path_with_a_home_directory_or_a_scheme_is_refused_in_every_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tenure.toml");
    let path = file.to_str().unwrap();
    let refused = |what: &str, output: &Output, part: &str| {
        let said = stderr(output);
        assert_eq!(code(output), 2, "{what}: {said}");
        assert!(said.contains(part), "{what}: {said}");
        let entries: Vec<_> = folder.path().read_dir().unwrap().flatten().collect();
        assert!(entries.len() <= 1, "{what}: {entries:?}");
    };
    let wrong = [
        ("~/t", "begins with ~"),
        ("file:///t", "is a URL"),
        ("file:t", "is a URL"),
    ];
    for (value, part) in wrong {
        for flag in [
            &["serve", "--data-dir"][..],
            &["serve", "--config"],
            &["serve", "--access"],
            &["serve", "--tls-key", "k", "--tls-certificate"],
            &["token", "list", "--file"],
            &["token", "create", "x", "--role", "read", "--output"],
            &["init", "--dir"],
            &["init", "--context-file"],
            &["status", "a/b", "--ca-file"],
            &["status", "a/b", "--token-file"],
            &["status", "a/b", "--client-key", "k", "--client-certificate"],
            &[
                "run",
                "--election",
                "a",
                "--strategy",
                "bully",
                "--node",
                "1",
                "--peers",
                "1=http://127.0.0.1:1",
                "--state-dir",
            ],
        ] {
            let (last, before) = flag.split_last().unwrap();
            let mut arguments = before.to_vec();
            let last = format!("{last}={value}");
            arguments.push(&last);
            if arguments[0] == "run" {
                arguments.extend(["--", "true"]);
            }
            let output = output(command(&arguments).current_dir(&folder));
            refused(&format!("{arguments:?}"), &output, part);
        }
        for argument in [
            &["backup"][..],
            &["restore"],
            &["access", "check"],
            &["audit", "verify"],
        ] {
            let arguments = [argument, &[value]].concat();
            let output = output(command(&arguments).current_dir(&folder));
            refused(&format!("{arguments:?}"), &output, part);
        }
        for key in [
            "serve.data_dir",
            "access.file",
            "audit.file",
            "tls.certificate",
            "ca_file",
            "token_file",
            "client_key",
        ] {
            fs::write(&file, format!("{key} = {value:?}\n")).unwrap();
            let output = output(command(&["config", "check", path]).current_dir(&folder));
            refused(key, &output, part);
        }
        for variable in ["TENURE_DATA_DIR", "TENURE_ACCESS_FILE", "TENURE_AUDIT_FILE"] {
            let mut serve = command(&["serve", "--listen", "127.0.0.1:0"]);
            let output = output(serve.env(variable, value).current_dir(&folder));
            refused(variable, &output, part);
        }
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
    let serve = ["serve", "--home", "memory", "--listen", &busy];
    let run = ["run", "--election", "a", "--server", "http://127.0.0.1:1"];
    for (arguments, exit_code, part) in [
        (serve.to_vec(), 1, "in use"),
        (vec!["serve", "--config", wrong], 2, "wrong.toml"),
        (vec!["serve", "--listn", "x"], 2, "--listn"),
        (
            vec!["serve", "--log-format", "json", "--home", "disk"],
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
