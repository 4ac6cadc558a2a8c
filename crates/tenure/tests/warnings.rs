//! Warnings of the library about its configuration.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use tenure::Config;

/// An environment variable with the file that the child process loads.
const CHILD: &str = "CONFIGURATION_OF_CHILD";

#[test]
fn the_library_warns_of_misspelt_variables_and_of_a_token_that_every_user_can_read() {
    let test = "the_library_warns_of_misspelt_variables_and_of_a_token_that_every_user_can_read";
    if let Some(file) = std::env::var_os(CHILD) {
        tracing_subscriber::fmt()
            .with_writer(std::io::stderr)
            .init();
        Config::load(file).unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (file, token) = (folder.path().join("t.toml"), folder.path().join("token"));
    fs::write(&token, "a-token").unwrap();
    fs::write(&file, format!("election = \"a\"\ntoken_file = {token:?}\n")).unwrap();
    let load = |mode: u32| {
        fs::set_permissions(&token, Permissions::from_mode(mode)).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, &file)
            .env("TENURE_SERVRES", "http://a")
            .env("TENURE_CONTEXT", "x")
            .output()
            .unwrap();
        assert!(child.status.success(), "{child:?}");
        String::from_utf8(child.stderr).unwrap()
    };
    let said = load(0o644);
    assert!(
        said.contains("TENURE_SERVRES is not a setting; did you mean TENURE_SERVERS?"),
        "{said}"
    );
    assert!(said.contains("token has mode 0644: every user"), "{said}");
    assert!(!said.contains("TENURE_CONTEXT"), "{said}");
    assert!(!load(0o640).contains("has mode"));
}
