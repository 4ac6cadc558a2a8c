//! `tenure doctor` with the configuration of a server whose home is a bucket.

#[path = "../../crates/tenure-register/tests/conformance/bucket/fake.rs"]
#[allow(dead_code)] // The tests of registers use the rest.
mod fake;

use std::process::Output;

use serde_json::Value;
use tenure_tests::process::{command, json_of, output};
use tokio::runtime::Runtime;

use self::fake::{Fake, Flaw};
use super::{Bench, code, stdout};

#[test]
fn the_doctor_probes_the_bucket_of_a_configuration_and_names_all_rules_that_it_does_not_keep() {
    let bench = Bench::new();
    let runtime = Runtime::new().unwrap();
    let config = bench.folder.path().join("server.toml");
    let path = config.to_str().unwrap();
    for (flaw, parts) in [
        (Flaw::None, &[][..]),
        (
            Flaw::IgnoresConditions,
            &[
                "If-None-Match",
                "If-Match",
                "that is missing",
                "use another store",
            ],
        ),
        (Flaw::KeepsDeleted, &["the right to delete", "AccessDenied"]),
    ] {
        let bucket = runtime.block_on(Fake::start(flaw));
        let home = format!("s3://bucket/a?endpoint={}", bucket.url());
        std::fs::write(&config, format!("[serve]\nhome = \"{home}\"\n")).unwrap();
        let ask = |more: &[&str]| -> Output {
            let arguments = ["doctor", "--config", path, "--server", &bench.store.url()];
            let access = [
                ("AWS_ACCESS_KEY_ID", "id"),
                ("AWS_SECRET_ACCESS_KEY", "key"),
            ];
            output(command(&arguments).args(more).envs(access))
        };
        let said = ask(&[]);
        let is_kept = parts.is_empty();
        assert_eq!(code(&said), i32::from(!is_kept), "{flaw:?}: {said:?}");
        let text = stdout(&said);
        let state = if is_kept { "passes" } else { "fails" };
        assert!(
            text.contains(&format!("{home}: {state} its probe")),
            "{text}"
        );
        let report = json_of(&ask(&["--json"]));
        assert_eq!(report["home"]["key"], "serve.home", "{report}");
        assert_eq!(report["home"]["home"], home.as_str(), "{report}");
        let findings = report["findings"].as_array().unwrap();
        match is_kept {
            true => assert_eq!(
                (findings.len(), &report["home"]["error"]),
                (0, &Value::Null)
            ),
            false => assert_eq!(findings, &[report["home"]["error"].clone()]),
        }
        // The place of the setting, and what to do.
        let place = [path, "home = "];
        for part in parts.iter().chain(place.iter().filter(|_| !is_kept)) {
            assert!(text.contains(part), "{part}: {text}");
            assert!(
                findings[0].as_str().unwrap().contains(part),
                "{part}: {report}"
            );
        }
        if flaw != Flaw::KeepsDeleted {
            assert_eq!(bucket.names(), <[String; 0]>::default(), "{flaw:?}");
        }
    }
}
