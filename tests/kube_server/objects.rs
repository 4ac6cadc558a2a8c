//! Other programs that write the object during a term, and the manifests of this project.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::{Value, json};
use tenure_tests::electors::Elector;
use tenure_tests::process::{output, stderr, stdout};
use tenure_tests::servers::server;
use tenure_tests::wait_for;

use super::{Bench, LEASE, terminate, wait_for_ends};

const DURATION: Duration = Duration::from_secs(9);

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/kubernetes");

/// `kubectl`, as the administrator; `None` if the test cannot run.
fn kubectl(bench: &Bench) -> Option<impl Fn(&[&str]) -> Output> {
    let program = server(bench.test, "kubectl")?;
    let (url, namespace) = (bench.place.url.clone(), bench.place.namespace.clone());
    let (authority, home) = (bench.server.ca_file(), bench.folder.path().to_owned());
    let editor = home.join("editor");
    // The editor of `kubectl edit`.
    fs::write(
        &editor,
        "#!/bin/sh\nsed -i 's/^  labels:/  labels:\\n    edited: by-hand/' \"$1\"\n",
    )
    .unwrap();
    fs::set_permissions(&editor, PermissionsExt::from_mode(0o755)).unwrap();
    Some(move |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command
            .args(["--server", &url, "--namespace", &namespace])
            .args(["--token", tenure_tests::api_server::ApiServer::ADMIN])
            .arg("--certificate-authority")
            .arg(&authority)
            .env("HOME", &home)
            .env("KUBECONFIG", "/nonexistent")
            .env("KUBE_EDITOR", &editor)
            .args(arguments);
        output(&mut command)
    })
}

#[test]
#[ignore = "takes a minute"]
fn a_term_outlives_every_command_of_kubectl_and_its_mark_stays_or_is_written_again() {
    let test = "a_term_outlives_every_command_of_kubectl_and_its_mark_stays_or_is_written_again";
    let Some(bench) = Bench::new(test, DURATION).map(Bench::with_rights) else {
        return;
    };
    let Some(kubectl) = kubectl(&bench) else {
        return;
    };
    let mut leader = bench.run("leader");
    bench.wait_for_term("leader", 0);
    let manifest = |name: &str, extra: &Value| {
        let mut object = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": LEASE, "labels": { "by": name } } });
        if !extra.is_null() {
            object["spec"] = extra.clone();
        }
        let path = bench.folder.path().join(name);
        fs::write(&path, object.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let none = Value::Null;
    let plain = manifest("plain", &none);
    let server_side = manifest("server-side", &none);
    let replaced = manifest("replaced", &json!({}));
    let patch = r#"{"metadata": {"annotations": {"by": "patch"}}}"#;
    let replace_one =
        r#"[{"op": "replace", "path": "/metadata/annotations", "value": {"a": "b"}}]"#;
    let object = format!("lease/{LEASE}");
    // Whether the annotations of tenure are still there after each command.
    let commands: [(&[&str], bool); 8] = [
        (&["label", &object, "team=billing"], true),
        (&["annotate", &object, "note=kept"], true),
        (&["apply", "-f", &plain], true),
        (
            &[
                "apply",
                "--server-side",
                "-f",
                &server_side,
                "--force-conflicts",
            ],
            true,
        ),
        (&["edit", &object], true),
        (&["patch", &object, "--type=merge", "-p", patch], true),
        (&["patch", &object, "--type=json", "-p", replace_one], false),
        (&["replace", "-f", &replaced], false),
    ];
    for (command, keeps) in commands {
        let versions = bench.versions();
        wait_for("the object", || (!versions.all().is_empty()).then_some(()));
        let done = kubectl(command);
        assert!(done.status.success(), "{command:?}: {done:?}");
        let written = wait_for(&format!("the change by {command:?}"), || {
            let versions = versions.all();
            let mut pairs = versions.array_windows();
            let other = pairs.find(|[before, it]| !it.is_of_tenure(Some(before)));
            other.map(|[_, it]| it.clone())
        });
        assert_eq!(
            !written.mark().is_empty(),
            keeps,
            "{command:?}: {}",
            written.object
        );
        bench.wait_for_renewal();
        let lease = bench.lease();
        let annotations = &lease["metadata"]["annotations"];
        for key in ["tenure/term", "tenure/epoch"] {
            assert!(annotations[key].is_string(), "{command:?}: {lease}");
        }
        assert_eq!(bench.terms().len(), 1, "{command:?}: {}", leader.stderr());
    }
    assert_eq!(terminate(&mut leader), ["shut_down"]);
}

#[test]
#[ignore = "takes half a minute"]
fn a_change_by_hand_ends_a_term_only_if_it_names_another_holder() {
    let test = "a_change_by_hand_ends_a_term_only_if_it_names_another_holder";
    let Some(bench) = Bench::new(test, DURATION).map(Bench::with_rights) else {
        return;
    };
    let mut leader = bench.run("leader");
    bench.wait_for_term("leader", 0);
    let mut follower = bench.run("follower");
    Bench::wait_for_follower(&follower);
    let edits: [fn(&mut Value); 6] = [
        |it| it["metadata"]["annotations"]["tenure/epoch"] = "9007199254740991".into(),
        |it| it["metadata"]["annotations"]["tenure/epoch"] = "seven".into(),
        |it| it["spec"]["holderIdentity"] = "".into(),
        |it| it["spec"] = json!({}),
        |it| it["metadata"]["annotations"] = Value::Null,
        |it| it["spec"]["leaseDurationSeconds"] = 1.into(),
    ];
    for edit in edits {
        bench.edit(edit);
        wait_for("the leader in its object", || {
            let lease = bench.lease();
            let annotations = &lease["metadata"]["annotations"];
            let mark = annotations["tenure/term"].as_str()?;
            let spec = &lease["spec"];
            let is_whole = mark.split('/').nth(1) == annotations["tenure/epoch"].as_str()
                && spec["leaseDurationSeconds"] == DURATION.as_secs();
            (is_whole && spec["holderIdentity"] == "leader").then_some(())
        });
        assert_eq!(bench.terms().len(), 1, "{}", leader.stderr());
    }
    bench.edit(|it| it["spec"]["holderIdentity"] = "nobody".into());
    assert_eq!(wait_for_ends(&leader, 1), ["superseded"]);
    let status = output(&mut bench.place.tenure_with(&["status", "tests/job"]));
    assert!(stdout(&status).contains("nobody"), "{status:?}");
    wait_for("another term", || (bench.terms().len() > 1).then_some(()));
    for candidate in [&mut leader, &mut follower] {
        let ended = terminate(candidate);
        assert!(
            ended
                .iter()
                .all(|it| it == "superseded" || it == "shut_down"),
            "{ended:?}"
        );
    }
    bench.assert_one_at_a_time();
}

#[test]
#[ignore = "takes two minutes"]
fn the_annotations_of_tenure_outlive_a_term_of_every_other_program() {
    let test = "the_annotations_of_tenure_outlive_a_term_of_every_other_program";
    let electors = [
        Elector::ClientGo,
        Elector::ReleasingClientGo,
        Elector::OldClientGo,
        Elector::ControllerRuntime,
        Elector::Python,
    ];
    let Some(bench) = Bench::new(test, DURATION).map(Bench::with_rights) else {
        return;
    };
    let mut epoch = 0;
    for (number, elector) in electors.into_iter().enumerate() {
        let mut ours = bench.run(&format!("ours-{number}"));
        let term = bench.wait_for_term(&format!("ours-{number}"), 0);
        assert!(term.epoch > epoch, "{elector:?}");
        epoch = term.epoch;
        terminate(&mut ours);
        let Some(mut other) = bench.start(elector, elector.name()) else {
            return;
        };
        bench.wait_for_term(elector.name(), 0);
        bench.wait_for_renewal();
        let lease = bench.lease();
        let annotations = &lease["metadata"]["annotations"];
        assert_eq!(
            annotations["tenure/epoch"],
            epoch.to_string(),
            "{elector:?}: {lease}"
        );
        assert!(
            annotations["tenure/term"].is_string(),
            "{elector:?}: {lease}"
        );
        other.signal(nix::sys::signal::Signal::SIGTERM);
        other.wait();
    }
    bench.assert_one_at_a_time();
}

#[test]
#[ignore = "takes half a minute"]
fn the_server_accepts_all_manifests_but_those_of_resources_that_it_does_not_have() {
    let test = "the_server_accepts_all_manifests_but_those_of_resources_that_it_does_not_have";
    let Some(bench) = Bench::new(test, DURATION) else {
        return;
    };
    let Some(kubectl) = kubectl(&bench) else {
        return;
    };
    let namespaces = ["tenure", "billing"];
    for (folder, missing) in [
        ("base", &[][..]),
        ("overlays/example-worker", &[]),
        ("overlays/tls-cert-manager", &["Certificate", "Issuer"]),
        (
            "overlays/monitoring",
            &["Certificate", "Issuer", "PrometheusRule", "ServiceMonitor"],
        ),
    ] {
        let folder = format!("{DEPLOY}/{folder}");
        let rendered = kubectl(&["kustomize", &folder]);
        assert!(rendered.status.success(), "{folder}: {rendered:?}");
        let objects = String::from_utf8_lossy(&rendered.stdout).into_owned();
        let objects = objects
            .split("\n---\n")
            .enumerate()
            .map(|(number, object)| {
                let path = bench.folder.path().join(format!("object-{number}.yaml"));
                fs::write(&path, object).unwrap();
                (path.to_str().unwrap().to_owned(), object.to_owned())
            });
        let mut refused: Vec<String> = Vec::new();
        for (path, object) in objects.collect::<Vec<_>>() {
            let kind = object.lines().find_map(|line| line.strip_prefix("kind: "));
            let kind = kind.expect("a kind").to_owned();
            // The flag in front of the objects' own namespaces would contradict them.
            let applied = kubectl(&[
                "--namespace=",
                "apply",
                "--server-side",
                "--validate=strict",
                "-f",
                &path,
            ]);
            let said = stderr(&applied);
            if !applied.status.success() {
                assert!(
                    said.contains("no matches for kind"),
                    "{folder} {kind}: {said}"
                );
                refused.push(kind);
            } else {
                assert!(!said.contains("Warning"), "{folder} {kind}: {said}");
            }
        }
        refused.sort();
        refused.dedup();
        assert_eq!(refused, missing, "{folder}");
    }
    for namespace in namespaces {
        bench
            .server
            .end_namespace(&format!("/api/v1/namespaces/{namespace}"));
    }
}
