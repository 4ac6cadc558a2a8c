//! Commands of root in the directory of another user, whose processes put links there.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::unistd::{Uid, User};
use tempfile::TempDir;
use tenure_tests::needs::{can_run, has_program};
use tenure_tests::process::{command, output};

/// The number of tries of a race. Without the protection, most tries succeed.
const TRIES: usize = 20;

/// The system calls that change an owner or a mode by path.
const BY_PATH: &str = "?chown,?lchown,?fchownat,?chmod,?fchmodat";

/// A directory of a user, beside one of root.
struct Home {
    folder: TempDir,
    person: User,
}

impl Home {
    /// `None` if the test can't run here.
    fn new(test: &str) -> Option<Self> {
        let person = User::from_name("nobody")
            .expect("the users")
            .expect("a user");
        let is_met = Uid::effective().is_root() && has_program("strace");
        if !can_run(test, "root and strace", is_met) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("a mode");
        let home = Self { folder, person };
        for name in ["home", "root"] {
            fs::create_dir(home.path(name)).expect("a folder");
        }
        fs::set_permissions(home.path("root"), Permissions::from_mode(0o700)).expect("a mode");
        home.give(&home.path("home"));
        fs::write(home.path("root/victim"), "a secret of root").expect("a file");
        Some(home)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("text").to_owned()
    }

    fn give(&self, path: &Path) {
        let person = &self.person;
        chown(path, Some(person.uid.as_raw()), Some(person.gid.as_raw())).expect("an owner");
    }

    /// Runs a command as root, which the person has called by sudo, with a umask that takes nothing.
    /// Each change of an owner or a mode by path comes late, so that a link can come before it.
    fn sudo(&self, arguments: &[&str]) -> Output {
        let inner = command(arguments);
        let mut shell = Command::new("strace");
        let trace = format!("trace={BY_PATH}");
        let inject = format!("inject={BY_PATH}:delay_enter=20ms");
        shell.args(["-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject]);
        shell.args(["sh", "-c", "umask 0; exec \"$0\" \"$@\""]);
        shell.arg(inner.get_program()).args(inner.get_args());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        output(shell.env("SUDO_USER", &self.person.name))
    }

    fn init(&self, number: usize) -> Output {
        let (dir, data) = (
            self.text(&format!("root/etc-{number}")),
            self.text("root/data"),
        );
        let context = self.text("home/.config/tenure/config.toml");
        self.sudo(&[
            "init",
            "--dir",
            &dir,
            "--data-dir",
            &data,
            "--context-file",
            &context,
        ])
    }

    fn token(&self, name: &str, output: &str) -> Output {
        let (file, output) = (self.text("home/access.toml"), self.text(output));
        let create = [
            "token",
            "create",
            name,
            "--role",
            "read",
            "--namespace",
            "a",
        ];
        self.sudo(&[&create[..], &["--file", &file, "--output", &output]].concat())
    }

    /// Makes an access file of the person.
    fn make_access_file(&self) {
        assert!(self.init(0).status.success());
        let access = self.path("home/access.toml");
        fs::copy(self.path("root/etc-0/access.toml"), &access).expect("a copy");
        self.give(&access);
    }

    /// Puts a link to a file of root in place of each file in this directory whose name begins so,
    /// while `work` runs, as a process of the person may.
    fn race(&self, folder: &str, prefix: &str, mut work: impl FnMut(usize)) {
        let (folder, victim) = (self.path(folder), self.path("root/victim"));
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                        let name = entry.file_name();
                        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
                        if is_file && name.to_string_lossy().starts_with(prefix) {
                            let _ = fs::remove_file(entry.path());
                            let _ = symlink(&victim, entry.path());
                        }
                    }
                }
            });
            for number in 1..=TRIES {
                work(number);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let metadata = fs::metadata(&victim).expect("the file of root");
        assert_eq!((metadata.uid(), metadata.gid()), (0, 0));
        assert_eq!(crate::read(&victim), "a secret of root");
    }

    #[track_caller]
    fn is_persons(&self, path: &str, mode: u32) {
        let metadata = fs::symlink_metadata(self.path(path)).expect(path);
        let owner = (metadata.uid(), metadata.gid());
        assert_eq!(
            owner,
            (self.person.uid.as_raw(), self.person.gid.as_raw()),
            "{path}"
        );
        assert_eq!(metadata.mode() & 0o7777, mode, "{path}");
    }
}

#[test]
fn files_of_root_keep_their_owner_when_init_races_with_links() {
    let test = "files_of_root_keep_their_owner_when_init_races_with_links";
    let Some(home) = Home::new(test) else { return };
    assert!(home.init(0).status.success());
    home.race("home/.config/tenure", "config", |number| {
        let _ = fs::remove_file(home.path("home/.config/tenure/config.toml"));
        home.init(number);
    });
}

#[test]
fn files_of_root_keep_their_owner_when_a_token_command_races_with_links() {
    let test = "files_of_root_keep_their_owner_when_a_token_command_races_with_links";
    let Some(home) = Home::new(test) else { return };
    home.make_access_file();
    home.race("home", ".access", |number| {
        home.token(&format!("w{number}"), &format!("home/{number}.token"));
    });
}

#[test]
fn what_root_makes_in_the_directory_of_a_person_is_for_that_person_alone_whatever_the_umask() {
    let test =
        "what_root_makes_in_the_directory_of_a_person_is_for_that_person_alone_whatever_the_umask";
    let Some(home) = Home::new(test) else { return };
    home.make_access_file();
    home.is_persons("home/.config", 0o700);
    home.is_persons("home/.config/tenure", 0o700);
    home.is_persons("home/.config/tenure/config.toml", 0o600);
    let created = home.token("worker", "home/worker.token");
    assert!(created.status.success(), "{created:?}");
    home.is_persons("home/worker.token", 0o600);
    home.is_persons("home/access.toml", 0o640);
    let context = home.text("home/.config/tenure/config.toml");
    let config_home = home.text("home/.config");
    let mut list = command(&["context", "use", "default"]);
    let used = output(list.env("XDG_CONFIG_HOME", &config_home));
    assert!(used.status.success(), "{used:?}");
    home.is_persons(
        context
            .strip_prefix(home.text("").as_str())
            .expect("a part"),
        0o600,
    );
}

#[test]
fn root_writes_nothing_where_only_a_link_of_a_person_leads() {
    let test = "root_writes_nothing_where_only_a_link_of_a_person_leads";
    let Some(home) = Home::new(test) else { return };
    home.make_access_file();
    fs::create_dir(home.path("root/of-root")).expect("a folder");
    fs::remove_dir_all(home.path("home/.config")).expect("a folder");
    for link in ["home/.config", "home/tokens"] {
        symlink(home.path("root/of-root"), home.path(link)).expect("a link");
        let person = &home.person;
        let (uid, gid) = (person.uid.as_raw(), person.gid.as_raw());
        std::os::unix::fs::lchown(home.path(link), Some(uid), Some(gid)).expect("an owner");
    }
    let init = home.init(1);
    assert!(!init.status.success(), "{init:?}");
    let before = crate::read(&home.path("home/access.toml"));
    let created = home.token("worker", "home/tokens/worker.token");
    assert!(!created.status.success(), "{created:?}");
    let written = fs::read_dir(home.path("root/of-root"))
        .expect("a folder")
        .count();
    assert_eq!(written, 0);
    assert_eq!(crate::read(&home.path("home/access.toml")), before);
}

#[test]
fn no_writer_of_root_follows_a_link_of_a_person() {
    let test = "no_writer_of_root_follows_a_link_of_a_person";
    let Some(home) = Home::new(test) else { return };
    let (uid, gid) = (home.person.uid.as_raw(), home.person.gid.as_raw());
    let link = |name: &str, target: &str| {
        symlink(home.path(target), home.path(name)).expect("a link");
        std::os::unix::fs::lchown(home.path(name), Some(uid), Some(gid)).expect("an owner");
    };
    fs::create_dir(home.path("root/of-root")).expect("a folder");
    // A directory of root in which everybody may write, and one of the person.
    fs::create_dir(home.path("shared")).expect("a folder");
    fs::set_permissions(home.path("shared"), Permissions::from_mode(0o777)).expect("a mode");
    for folder in ["shared", "home"] {
        fs::create_dir(home.path(&format!("{folder}/state"))).expect("a folder");
        link(&format!("{folder}/state/lock"), "root/of-root/lock");
        link(&format!("{folder}/folder"), "root/of-root");
        link(&format!("{folder}/audit"), "root/of-root/audit");
        link(&format!("{folder}/tenure.1"), "root/victim");
        let path = |name: &str| home.text(&format!("{folder}/{name}"));
        for state in [path("state"), path("folder/state")] {
            let run = [
                "run",
                "--strategy",
                "bully",
                "--election",
                "a/b",
                "--node",
                "1",
            ];
            let peers = [
                "--peers",
                "1=http://127.0.0.1:1",
                "--state-dir",
                &state,
                "--",
                "true",
            ];
            let run = output(&mut command(&[&run[..], &peers].concat()));
            let said = String::from_utf8_lossy(&run.stderr);
            assert!(
                !run.status.success() && said.contains("is a link"),
                "{said}"
            );
        }
        for file in [path("audit"), path("folder/audit")] {
            let mut serve = command(&["serve", "--home", "memory", "--listen", "127.0.0.1:0"]);
            let serve = output(serve.env("TENURE_AUDIT_FILE", &file));
            assert_eq!(serve.status.code(), Some(2), "{file}: {serve:?}");
        }
        let man = output(&mut command(&["man", &path("")]));
        assert!(!man.status.success(), "{man:?}");
    }
    let made = fs::read_dir(home.path("root/of-root"))
        .expect("a folder")
        .count();
    assert_eq!(made, 0);
    assert_eq!(crate::read(&home.path("root/victim")), "a secret of root");
    // The umask takes nothing away and adds nothing.
    let man = home.sudo(&["man", &home.text("root/pages")]);
    assert!(man.status.success(), "{man:?}");
    let mode = fs::metadata(home.path("root/pages")).expect("pages").mode();
    assert_eq!(mode & 0o7777, 0o755);
}
