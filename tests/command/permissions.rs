//! Warnings about files that other users can read or change.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::sys::signal::Signal;
use tenure_tests::process::{Process, command, output, stderr};
use tenure_tests::wait_for;

use super::address_of;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_warning_is_logged_for_a_data_directory_that_others_can_change() {
    let folder = tempfile::tempdir().unwrap();
    let said = |mode: u32| {
        set_mode(folder.path(), mode);
        let mut serve = command(&["serve", "--listen", "127.0.0.1:0", "--data-dir"]);
        let mut store = Process::spawn(serve.arg(folder.path()));
        address_of(&mut store);
        store.signal(Signal::SIGTERM);
        assert_eq!(store.wait().code(), Some(0));
        store.stderr()
    };
    let path = folder.path().display();
    for mode in [0o777, 0o720, 0o702] {
        let said = said(mode);
        let told = format!("{path} has mode {mode:04o}");
        assert!(said.contains(&told), "{said}");
        assert!(said.contains(&format!("chmod go-w {path}")), "{said}");
    }
    for mode in [0o700, 0o755] {
        let said = said(mode);
        assert!(!said.contains("chmod"), "{said}");
    }
}

#[test]
fn a_state_directory_and_a_data_directory_are_private_whatever_the_umask_is() {
    for umask in ["0", "0177"] {
        let folder = tempfile::tempdir().unwrap();
        let spawn = |arguments: &[&str]| {
            let inner = command(arguments);
            let mut shell = std::process::Command::new("sh");
            let script = format!("umask {umask}; exec \"$0\" \"$@\"");
            shell.args(["-c", &script]).arg(inner.get_program());
            Process::spawn(shell.args(inner.get_args()).current_dir(&folder))
        };
        let mode = |name: &str| {
            let metadata = fs::metadata(folder.path().join(name)).ok()?;
            Some(metadata.permissions().mode() & 0o7777)
        };
        let _store = spawn(&["serve", "--listen", "127.0.0.1:0", "--data-dir", "data/a"]);
        let run = ["run", "--election", "tests/job", "--strategy", "bully"];
        let member = ["--node", "1", "--peers", "1=http://127.0.0.1:1"];
        let listen = ["--listen", "127.0.0.1:0", "--state-dir", "state/a"];
        let _run = spawn(&[&run[..], &member, &listen, &["--", "sleep", "60"]].concat());
        wait_for("both", || {
            mode("data/a/lock")
                .and_then(|_| mode("state/a/lock"))
                .map(drop)
        });
        for name in ["data", "data/a", "state", "state/a"] {
            assert_eq!(mode(name), Some(0o700), "{name} with umask {umask}");
        }
        assert_eq!(mode("state/a/lock"), Some(0o600));
    }
}

#[test]
fn a_warning_is_logged_for_an_address_with_a_password_that_all_users_can_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tenure.toml");
    for (address, mode, warns) in [
        ("http://u:secret@127.0.0.1:1", 0o644, true),
        ("http://u:secret@127.0.0.1:1", 0o600, false),
        ("http://127.0.0.1:1", 0o644, false),
    ] {
        fs::write(&file, format!("servers = [\"{address}\"]\n")).unwrap();
        set_mode(&file, mode);
        let path = file.to_str().unwrap();
        let listed = output(&mut command(&["list", "--config", path]));
        let said = stderr(&listed);
        assert_eq!(said.contains("chmod o-rw"), warns, "{address}: {said}");
        assert!(!said.contains("secret@"), "{said}");
    }
}

#[test]
fn a_warning_is_logged_for_keys_that_all_users_can_read() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("peers.key");
    fs::write(&key, "a secret of some thirty-two bytes, or more").unwrap();
    let path = key.display().to_string();
    let run = |mode: u32| {
        set_mode(&key, mode);
        let mut run = command(&["run", "--election", "tests/job", "--strategy", "bully"]);
        run.args(["--node", "1", "--peers", "1=http://127.0.0.1:1"])
            .args(["--listen", "127.0.0.1:0", "--key-file", &path])
            .arg("--state-dir")
            .arg(folder.path().join("state"))
            .args(["--", "sleep", "60"]);
        Process::spawn(&mut run)
    };
    let open = run(0o644);
    wait_for("a warning", || {
        let said = open.stderr();
        let told = format!("{path} has mode 0644");
        (said.contains(&told) && said.contains(&format!("chmod o-rw {path}"))).then_some(())
    });
    drop(open);
    let closed = run(0o640);
    wait_for("a leader", || {
        closed.stderr().contains("leadership gained").then_some(())
    });
    assert!(!closed.stderr().contains("chmod"), "{}", closed.stderr());
}
