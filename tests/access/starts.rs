//! Tests of the conditions under which a store with or without access control starts.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tenure_tests::process::Process;
use tenure_tests::wait_for;

use crate::{Place, started, wait_for_log};

const LISTEN: [&str; 3] = ["serve", "--listen", "0.0.0.0:0"];

fn serve<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&LISTEN[..], more].concat()
}

#[test]
fn a_store_on_a_network_is_closed_unless_a_flag_opens_it() {
    let place = Place::new();
    let error = place.fail(2, &serve(&["--home", "memory"]));
    for way in ["tenure init", "--access", "--allow-anonymous", "127.0.0.1"] {
        assert!(error.contains(way), "{error}");
    }
    // Each flag permits only the start that its name describes.
    let error = place.fail(2, &serve(&["--home", "memory", "--allow-plain-http"]));
    assert!(error.contains("no access file"), "{error}");
    place.init();
    let access = place.text("etc/access.toml");
    let with_file = ["--home", "memory", "--access", &access];
    for flags in [&[][..], &["--allow-anonymous"]] {
        let error = place.fail(2, &serve(&[&with_file[..], flags].concat()));
        assert!(error.contains("--allow-plain-http"), "{error}");
    }
    for arguments in [
        serve(&["--home", "memory", "--allow-anonymous"]),
        serve(&[&with_file[..], &["--allow-plain-http"]].concat()),
    ] {
        let store = started(&mut place.command(&arguments));
        wait_for_log(&store, &["WARN", "--allow-"]);
    }
}

#[test]
fn a_missing_access_file_is_an_error() {
    let place = Place::new();
    let missing = place.text("missing.toml");
    let listen = ["serve", "--listen", "127.0.0.1:0", "--home", "memory"];
    let error = place.fail(2, &[&listen[..], &["--access", &missing]].concat());
    assert!(error.contains("missing.toml"), "{error}");
}

#[test]
fn a_data_directory_that_had_access_control_is_not_served_without() {
    let place = Place::new();
    place.init();
    let store = place.serve();
    drop(store);
    let data = place.text("data");
    let loopback = ["serve", "--listen", "127.0.0.1:0", "--data-dir", &data];
    let error = place.fail(2, &loopback);
    assert!(error.contains("had access control"), "{error}");
    let mut open = place.command(&[&loopback[..], &["--allow-anonymous"]].concat());
    let store = Process::spawn(&mut open);
    wait_for("the start", || {
        store.stdout().contains("listening").then_some(())
    });
}

#[test]
fn a_file_that_others_may_write_is_refused_at_the_start_and_at_a_reload() {
    let place = Place::new();
    place.init();
    let access = place.path("etc/access.toml");
    let store = place.serve();
    fs::set_permissions(&access, fs::Permissions::from_mode(0o666)).expect("another mode");
    wait_for("an error", || {
        let stderr = store.stderr();
        (stderr.contains("keeping the rules before") && stderr.contains("chmod go-w")).then_some(())
    });
    place.succeed(&["list"]);
    drop(store);
    let config = place.text("etc/tenure.toml");
    let error = place.fail(2, &["serve", "--config", &config]);
    assert!(error.contains("chmod go-w"), "{error}");
}

#[test]
fn a_wrong_file_leaves_the_rules_before_in_force() {
    let place = Place::new();
    place.init();
    let store = place.serve();
    let access = place.path("etc/access.toml");
    let right = crate::read(&access);
    fs::write(&access, format!("{right}\nnonsense = 1\n")).expect("a file");
    wait_for("an error", || {
        store.stderr().contains("nonsense").then_some(())
    });
    place.succeed(&["list"]);
    let check = place.fail(2, &["access", "check", &place.text("etc/access.toml")]);
    assert!(check.contains("nonsense"), "{check}");
    fs::write(&access, right).expect("a file");
    wait_for("a reload", || {
        store
            .stderr()
            .contains("access file reloaded")
            .then_some(())
    });
    place.succeed(&["access", "check", &place.text("etc/access.toml")]);
}

#[test]
fn a_store_that_is_refused_leaves_nothing_behind_and_each_way_on_works() {
    let place = Place::new();
    place.init();
    let [access, certificate, key, data] = [
        "etc/access.toml",
        "etc/tls/store.pem",
        "etc/tls/store.key",
        "new-data",
    ]
    .map(|name| place.text(name));
    let file = ["--access", &access];
    let tls = ["--tls-certificate", &certificate, "--tls-key", &key];
    let plain = ["--allow-plain-http"];
    let anonymous = ["--allow-anonymous"];
    let missing = place.text("missing.toml");
    let any = "0.0.0.0:0";
    let serve = |listen, flags: &[&[&str]]| {
        let serve = ["serve", "--data-dir", &data, "--listen", listen];
        let words = [&serve[..], &flags.concat()].concat();
        words
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<String>>()
    };
    let no_file = [
        "no access file",
        "tenure init",
        "--access",
        "--allow-anonymous",
        "127.0.0.1:",
    ];
    let no_tls = [
        "without TLS",
        "tenure init",
        "--tls-certificate",
        "--allow-plain-http",
        "127.0.0.1:",
    ];
    let no_such_file = ["missing.toml", "No such file"];
    for (listen, flags, words) in [
        (any, &[][..], &no_file[..]),
        (any, &[&plain[..]], &no_file),
        (any, &[&tls[..]], &no_file),
        (any, &[&tls[..], &plain], &no_file),
        ("[::]:0", &[], &no_file),
        ("[::ffff:192.0.2.7]:0", &[], &no_file),
        (any, &[&file[..]], &no_tls),
        (any, &[&file[..], &anonymous], &no_tls),
        (any, &[&["--access", &missing][..], &plain], &no_such_file),
        (
            any,
            &[&["--access", &missing][..], &plain, &anonymous],
            &no_such_file,
        ),
    ] {
        let serve = serve(listen, flags);
        let serve: Vec<&str> = serve.iter().map(String::as_str).collect();
        let error = place.fail(2, &serve);
        for word in words {
            assert!(
                error.contains(word),
                "{listen} {flags:?}: no {word:?} in {error}"
            );
        }
        assert!(!place.path("new-data").exists(), "{listen} {flags:?}");
    }
    for (listen, flags) in [
        (any, &[&anonymous[..]][..]),
        ("127.0.0.1:0", &[]),
        (any, &[&file[..], &plain]),
        (any, &[&file[..], &tls]),
        ("127.0.0.1:0", &[&file[..]]),
    ] {
        let serve = serve(listen, flags);
        let serve: Vec<&str> = serve.iter().map(String::as_str).collect();
        drop(started(&mut place.command(&serve)));
        let is_guarded = place.path("new-data/GUARDED").exists();
        assert_eq!(is_guarded, flags.contains(&&file[..]), "{listen} {flags:?}");
    }
    // From now on the data directory was served with an access file.
    let guarded = ["had access control", "--access", "--allow-anonymous"];
    for (listen, flags) in [
        ("127.0.0.1:0", &[][..]),
        (any, &[&plain[..]]),
        (any, &[&tls[..]]),
    ] {
        let serve = serve(listen, flags);
        let serve: Vec<&str> = serve.iter().map(String::as_str).collect();
        let error = place.fail(2, &serve);
        for word in guarded {
            assert!(
                error.contains(word),
                "{listen} {flags:?}: no {word:?} in {error}"
            );
        }
    }
}
