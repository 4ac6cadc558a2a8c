//! Tests of files that change while a store runs: wrong files change nothing and are named in the
//! log, and the log reports when they are valid again.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use nix::sys::signal::Signal;
use rcgen::KeyPair;
use tenure_tests::needs::can_run;

use crate::{Place, read, wait_for_count, wait_for_log};

#[test]
fn a_wrong_access_file_is_named_with_its_line_its_value_and_a_right_one() {
    let place = Place::new();
    place.init();
    place.create("worker");
    let store = place.serve();
    let path = place.path("etc/access.toml");
    let right = read(&path);
    let file = place.text("etc/access.toml");
    // The position of the last occurrence of this text, with lines counted from 1.
    let line = |text: &str, part: &str| {
        let at = text.rfind(part).expect("the part");
        format!("{file}:{}:", text[..at].matches('\n').count() + 1)
    };
    let hash = right.rfind("sha256 = \"").expect("a hash") + "sha256 = \"".len();
    let half = &right[..hash + 7];
    let cases = [
        (half.to_owned(), "sha256", &[][..]),
        (
            right.replace("\"candidate\"", "\"boss\""),
            "\"boss\"",
            &["boss", "candidate", "operator"],
        ),
        (
            right.replace("\"tests\"", "\"no name\""),
            "\"no name\"",
            &["no name", "A-Z"],
        ),
        (
            right.replacen("created = ", "createt = ", 1),
            "createt",
            &["createt", "created"],
        ),
        (
            right.replace("version = 1", "version = 7"),
            "version",
            &["7", "1"],
        ),
        (
            format!("{}\"\n", half),
            "sha256",
            &["sha256", "64 characters", "a-f"],
        ),
        (
            format!("{right}\n[[principal]]\nname = \"ada\"\n"),
            "name = \"ada\"",
            &["ada", "unique"],
        ),
        (
            format!("{right}\n[[deny]]\nidentity = \"nobody\"\n"),
            "\"nobody\"",
            &["nobody"],
        ),
    ];
    for (count, (wrong, part, words)) in (1..).zip(cases) {
        // The file is overwritten in place, as some editors do: the store may read a part of the
        // file.
        fs::write(&path, &wrong).expect("a file");
        let place_of_error = line(&wrong, part);
        let error = ["can't reload the access file", &place_of_error];
        let words = [&error[..], words].concat();
        wait_for_log(&store, &words);
        // The administrator's token is still valid, and the previous rules are in force.
        place.succeed(&["list", "--namespace", "other"]);
        fs::write(&path, &right).expect("a file");
        wait_for_count(&store, "access file reloaded", count);
    }
    fs::rename(&path, place.path("away")).expect("another place");
    wait_for_log(
        &store,
        &["can't reload the access file", &file, "No such file"],
    );
    place.succeed(&["list"]);
    fs::rename(place.path("away"), &path).expect("the place before");
    wait_for_count(&store, "access file reloaded", 9);
}

#[test]
fn an_access_file_of_another_user_is_refused_at_the_start_and_at_a_reload() {
    let test = "an_access_file_of_another_user_is_refused_at_the_start_and_at_a_reload";
    let place = Place::new();
    place.init();
    let path = place.path("etc/access.toml");
    let own = fs::metadata(&path).expect("a file").uid();
    if !can_run(test, "root, to give a file away", own == 0) {
        return;
    }
    let store = place.serve();
    chown(&path, Some(4242), None).expect("another owner");
    let file = place.text("etc/access.toml");
    let fix = format!("run: chown 0 {file}");
    wait_for_log(&store, &["can't reload the access file", "user 4242", &fix]);
    place.succeed(&["list"]);
    let config = place.text("etc/tenure.toml");
    let error = place.fail(2, &["serve", "--config", &config]);
    assert!(
        error.contains("user 4242") && error.contains(&fix),
        "{error}"
    );
    let error = place.fail(2, &["access", "check", &file]);
    assert!(error.contains(&fix), "{error}");
    chown(&path, Some(own), None).expect("the owner before");
    wait_for_count(&store, "access file reloaded", 1);
    // If other users can read the hashes, the store only logs a warning.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("another mode");
    wait_for_count(&store, "access file reloaded", 2);
    wait_for_log(&store, &["WARN", "0644", &format!("chmod o-r {file}")]);
}

#[test]
fn a_wrong_certificate_or_key_at_a_reload_leaves_the_old_one_in_force() {
    let place = Place::new();
    place.init();
    let store = place.serve();
    let (certificate, key) = (
        place.path("etc/tls/store.pem"),
        place.path("etc/tls/store.key"),
    );
    let right = (read(&certificate), read(&key));
    let foreign = KeyPair::generate().expect("a key").serialize_pem();
    let half = &right.0[..right.0.len() / 2];
    let reload = || store.signal(Signal::SIGHUP);
    let failed = "can't reload the certificate, keeping the old one";
    for (count, (path, text, words)) in (1..).zip([
        (&certificate, half, &["END"][..]),
        (&certificate, "", &["no certificate"]),
        (
            &key,
            &foreign,
            &["not the key of the first certificate", "store.pem"],
        ),
        (&key, "nonsense", &["no private key", "PRIVATE KEY"]),
    ]) {
        fs::write(path, text).expect("a file");
        reload();
        let name = path.to_str().expect("text");
        wait_for_log(&store, &[&[failed, name], words].concat());
        place.succeed(&["list"]);
        fs::write(&certificate, &right.0).expect("the certificate");
        fs::write(&key, &right.1).expect("the key");
        reload();
        wait_for_count(&store, "have the old certificate again", count);
    }
    let log = store.stderr();
    let secret = foreign.lines().nth(1).expect("a line");
    assert!(!log.contains(secret), "{log}");
}

/// Returns a key set with one key, which has this id.
fn key_set(id: &str) -> String {
    format!(
        r#"{{"keys": [{{"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": "{id}",
            "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}}]}}"#
    )
}

#[test]
fn a_wrong_key_set_at_a_reload_leaves_the_old_one_in_force() {
    let place = Place::new();
    place.init();
    let (access, keys) = (place.path("etc/access.toml"), place.path("keys.json"));
    let without = read(&access);
    let issuer =
        "[[issuer]]\nname = \"ci\"\nissuer = \"https://ci.example\"\naudience = \"tenure\"";
    let with = format!("{without}\n{issuer}\nkey_set_file = {keys:?}\n");
    fs::write(&access, &with).expect("an access file");
    fs::write(&keys, key_set("one")).expect("keys");
    let store = place.serve();
    let in_force = "keys of an authority are in force";
    wait_for_count(&store, in_force, 1);
    let name = place.text("keys.json");
    let whole = key_set("two");
    fs::write(&keys, &whole[..whole.len() / 2]).expect("keys");
    store.signal(Signal::SIGHUP);
    let failed = ["WARN", "keeping those before", "ci", &name];
    wait_for_log(
        &store,
        &[&failed[..], &["line 1", "JSON Web Key Set"]].concat(),
    );
    // A file with unchanged keys replaces no key, and the log reports that the file is valid again.
    fs::write(&keys, key_set("one")).expect("keys");
    store.signal(Signal::SIGHUP);
    wait_for_count(&store, in_force, 2);
    fs::rename(&keys, place.path("away")).expect("another place");
    store.signal(Signal::SIGHUP);
    wait_for_log(&store, &["keeping those before", &name, "No such file"]);
    fs::rename(place.path("away"), &keys).expect("the place before");
    store.signal(Signal::SIGHUP);
    wait_for_count(&store, in_force, 3);
    // The keys of an authority are fetched again if the access file names the authority again.
    fs::write(&access, &without).expect("an access file");
    wait_for_count(&store, "access file reloaded", 1);
    fs::write(&access, &with).expect("an access file");
    wait_for_count(&store, in_force, 4);
    // A set without a public key of signatures is valid: the authority has taken its keys back.
    let symmetric = r#"{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}"#;
    fs::write(&keys, symmetric).expect("keys");
    store.signal(Signal::SIGHUP);
    wait_for_log(&store, &["WARN", "no public key of signatures", "ci"]);
    assert!(!store.stderr().contains("c2VjcmV0"), "{}", store.stderr());
}
