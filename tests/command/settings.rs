//! Settings of `tenure serve`: a wrong one is refused with its origin.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use tenure_tests::process::{Process, command, output, run};

use super::{acquire, address_of, stderr};

/// The error of `tenure serve` for this file, which it must refuse.
fn refused(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tenure.toml");
    fs::write(&file, text).unwrap();
    let output = run(&["serve", "--config", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(output.stdout.is_empty());
    stderr(&output)
}

#[test]
fn a_key_with_control_characters_is_shown_escaped() {
    let said = refused("\"\\u001b[31mlisten\" = 1\n");
    assert!(said.contains("unknown key \\u001b[31mlisten"), "{said}");
    assert!(!said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn an_azure_account_with_the_name_of_a_path_of_the_store_is_refused() {
    const KEY: &str = "bXkgc2VjcmV0IGtleSwgMzIgYnl0ZXMgbG9uZy4uLg==";
    for name in ["v1", "livez", "readyz", "metrics", "ui", "openapi.json"] {
        let said = refused(&format!("[azure]\naccounts = [\"{name}:{KEY}\"]\n"));
        let request = format!("requests for /{name} would not come to the account");
        for part in ["tenure.toml:2", "accounts", &*request] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(!said.contains(KEY), "{said}");
    }
}

#[test]
fn a_key_set_of_bearer_tokens_without_a_public_key_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.json");
    fs::write(
        &keys,
        r#"{"keys": [{"kty": "oct", "alg": "HS256", "k": "MDEyMzQ1Njc4OWFiY2RlZg"}]}"#,
    )
    .unwrap();
    let said = refused(&format!(
        "[azure]\nbearer_keys = {keys:?}\nbearer_issuer = \"https://issuer\"\n"
    ));
    for part in ["tenure.toml:2", "bearer_keys", "no public key"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_bad_flag_is_refused_with_its_value() {
    for (flag, value) in [("--listen", "7400"), ("--home", "etch"), ("--listen", "")] {
        let output = run(&["serve", &format!("{flag}={value}")]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(flag) && said.contains(value), "{said}");
    }
}

#[test]
fn the_old_flag_and_variable_of_the_home_are_refused_with_the_new_value() {
    let flag = run(&["serve", "--engine", "memory"]);
    let variable = output(command(&["serve"]).env("TENURE_ENGINE", "memory"));
    let expected = "engine = \"memory\": there is no such key any more: write home = \"memory\"";
    for (output, origin) in [
        (flag, "flag --engine"),
        (variable, "variable TENURE_ENGINE"),
    ] {
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(origin) && said.contains(expected), "{said}");
    }
}

#[test]
fn no_output_has_a_password_of_a_home_wherever_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tenure.toml");
    let file = file.to_str().unwrap();
    for home in [
        "postgres://u:geheim@127.0.0.1/d",
        "etcds://u:geheim@127.0.0.1/d",
        "postgres://127.0.0.1/d?user=u&password=geheim",
    ] {
        let mut variable = command(&["serve"]);
        variable.env("TENURE_HOME", home);
        fs::write(file, format!("[serve]\nhome = {home:?}\n")).unwrap();
        for (output, origin) in [
            (run(&["serve", "--home", home]), "flag --home"),
            (output(&mut variable), "variable TENURE_HOME"),
            (run(&["serve", "--config", file]), "tenure.toml:2"),
            (run(&["config", "check", file]), "tenure.toml:2"),
            (run(&["config", "show", "--config", file]), "tenure.toml:2"),
            (run(&["backup", "--config", file, "b"]), "tenure.toml:2"),
        ] {
            assert_eq!(output.status.code(), Some(2), "{output:?}");
            assert!(!format!("{output:?}").contains("geheim"), "{output:?}");
            let said = stderr(&output);
            assert!(
                said.contains(origin) && said.contains("home_file"),
                "{said}"
            );
        }
    }
}

#[test]
fn a_folder_whose_name_is_not_utf8_is_refused_and_not_renamed() {
    let folder = tempfile::tempdir().unwrap();
    let name = OsStr::from_bytes(b"\xff-data");
    let mut by_flag = command(&["serve", "--listen", "127.0.0.1:0", "--data-dir"]);
    by_flag.arg(name);
    let mut by_variable = command(&["serve", "--listen", "127.0.0.1:0"]);
    by_variable.env("TENURE_DATA_DIR", name);
    for command in [&mut by_flag, &mut by_variable] {
        let output = output(command.current_dir(&folder));
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("UTF-8"), "{}", stderr(&output));
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[test]
fn flags_override_the_environment_which_overrides_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tenure.toml");
    // Settings of a candidate and of a store.
    let text = "election = \"a/b\"\nlease_duration = \"5s\"\n\n[serve]\n\
        listen = \"127.0.0.1:0\"\nhome = \"of-the-file\"\n";
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let said = stderr(&run(&["serve", "--config", file]));
    assert!(said.contains("of-the-file"), "{said}");

    let mut environment = command(&["serve", "--config", file]);
    environment.env("TENURE_HOME", "of-the-environment");
    let said = stderr(&output(&mut environment));
    assert!(said.contains("of-the-environment"), "{said}");

    let mut flags = command(&["serve", "--config", file, "--home", "memory"]);
    let mut store = Process::spawn(flags.env("TENURE_HOME", "of-the-environment"));
    let address = address_of(&mut store);
    acquire(address, "tests/job", "holder");
}
