//! A client that a generator makes from the description.

use std::process::Command;

use crate::{DESCRIPTION, FOLDER, Store, assert_success, python};

#[test]
fn the_description_follows_the_specification_of_openapi() {
    let Some(bin) = python("the_description_follows_the_specification_of_openapi") else {
        return;
    };
    let mut validate = Command::new(bin.join("python"));
    let validated = validate
        .args(["-m", "openapi_spec_validator", DESCRIPTION])
        .output();
    assert_success(&validated.expect("the validator runs"));
}

#[test]
fn a_generated_client_acquires_renews_and_releases() {
    let Some(bin) = python("a_generated_client_acquires_renews_and_releases") else {
        return;
    };
    let store = Store::start();
    let folder = store.folder.path().join("client");
    std::fs::create_dir(&folder).expect("a folder");
    let mut generate = Command::new(bin.join("openapi-python-client"));
    generate.args([
        "generate",
        "--meta",
        "none",
        "--fail-on-warning",
        "--path",
        DESCRIPTION,
    ]);
    generate
        .args(["--output-path", "tenure_store"])
        .current_dir(&folder);
    let path = std::env::var("PATH").unwrap_or_default();
    // The generator formats its output with a command of the same folder.
    let generated = generate
        .env("PATH", format!("{}:{path}", bin.display()))
        .output();
    assert_success(&generated.expect("the generator runs"));
    let mut test = Command::new(bin.join("python"));
    test.args([&format!("{FOLDER}/client.py"), &store.url(), &store.token]);
    assert_success(
        &test
            .env("PYTHONPATH", &folder)
            .output()
            .expect("the client runs"),
    );
}
