//! Tests of files that change while a store runs: wrong files change nothing and are named in the
//! log, and the log reports when they are valid again.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

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
