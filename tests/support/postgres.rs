//! PostgreSQL servers as processes: a primary, and a standby of it.

use std::ffi::OsStr;
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::{Uid, User};

use super::needs::can_run;
use super::ports::free_address;

/// How long a server may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running PostgreSQL server in a folder of its own. The superuser `postgres` needs no password;
/// all other users do.
///
/// It ends, and its folder is deleted, when this is dropped or this process ends.
#[derive(Debug)]
pub struct Postgres {
    folder: PathBuf,
    port: u16,
    supervisor: Child,
    /// The supervisor ends the server when this pipe is closed.
    alive: Option<ChildStdin>,
}

/// Starts a program whose files are in the folder `$1`, and ends it at the end of stdin. The first
/// wait ends early if the program does. PostgreSQL ends at QUIT as in a crash, and pgbouncer ignores it.
const SUPERVISE: &str = r#"
    folder=$1
    shift
    "$@" </dev/null >>"$folder/log" 2>&1 &
    server=$!
    cat >/dev/null
    kill -QUIT $server 2>/dev/null
    kill -TERM $server 2>/dev/null
    wait $server
    rm -rf "$folder"
"#;

impl Postgres {
    /// Starts a primary with these lines in its configuration; `None` if PostgreSQL is not
    /// installed.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn start(test: &str, configuration: &str) -> Option<Self> {
        let found = programs();
        if !can_run(test, "PostgreSQL (package postgresql)", found.is_some()) {
            return None;
        }
        let folder = new_folder();
        let initdb = |collation: &[&str]| {
            let mut initdb = program(found.as_ref().expect("it was found"), "initdb");
            let options = [
                "--auth=trust",
                "--no-sync",
                "--no-locale",
                "--encoding=UTF8",
            ];
            initdb.args(options).args(collation);
            initdb.args(["--username=postgres", "-D"]);
            initdb.arg(folder.join("data"));
            initdb
        };
        // A usual database sorts text as people do, and not by its bytes.
        let sorted = initdb(&["--locale-provider=icu", "--icu-locale=en"]).output();
        if !sorted.is_ok_and(|sorted| sorted.status.success()) {
            succeed(&mut initdb(&[]));
        }
        let access = "local all all trust\n\
             host all postgres 127.0.0.1/32 trust\n\
             host replication postgres 127.0.0.1/32 trust\n\
             host all all 127.0.0.1/32 scram-sha-256\n";
        fs::write(folder.join("data/pg_hba.conf"), access).expect("a file");
        Some(Self::run(folder, configuration))
    }

    /// Starts a standby of this server with this name, for `synchronous_standby_names`.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn standby(&self, name: &str) -> Self {
        let folder = new_folder();
        let mut copy = program(&programs().expect("it runs"), "pg_basebackup");
        copy.args(["--checkpoint=fast", "--no-sync", "-R", "-D"]);
        copy.arg(folder.join("data")).arg("-d").arg(format!(
            "host=127.0.0.1 port={} user=postgres application_name={name}",
            self.port
        ));
        succeed(&mut copy);
        Self::run(folder, "")
    }

    fn run(folder: PathBuf, configuration: &str) -> Self {
        let port = free_address().port();
        let base = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{}'\n\
             shared_buffers = 16MB\nmax_connections = 40\nwal_level = replica\n\
             wal_receiver_status_interval = 1s\nwal_retrieve_retry_interval = 100ms\n\
             {configuration}\n",
            folder.display()
        );
        fs::write(folder.join("data/postgresql.auto.conf"), {
            // A copy of a primary has the settings of a standby there.
            let copied = fs::read_to_string(folder.join("data/postgresql.auto.conf"));
            copied.unwrap_or_default() + &base
        })
        .expect("a file");
        let mut server = Self::supervise(folder, port);
        server.wait_until_it_accepts();
        server
    }

    fn supervise(folder: PathBuf, port: u16) -> Self {
        let program = programs().expect("it was found").join("postgres");
        let data = folder.join("data");
        let (supervisor, alive) = supervise(&folder, &program, &[OsStr::new("-D"), data.as_ref()]);
        Self {
            folder,
            port,
            supervisor,
            alive,
        }
    }

    fn wait_until_it_accepts(&mut self) {
        let until = Instant::now() + PATIENCE;
        while self.try_query("select 1").is_err() {
            let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(Instant::now() < until, "PostgreSQL does not start: {log}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The folder with the data directory (`data`) and the log (`log`).
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A connection string for a user. The superuser needs no password.
    #[must_use]
    pub fn url(&self, user: &str, password: &str) -> String {
        let port = self.port;
        format!("postgres://{user}:{password}@127.0.0.1:{port}/postgres")
    }

    /// Runs statements as the superuser. Returns the rows as text: a line for each, with `|`
    /// between columns.
    ///
    /// # Panics
    ///
    /// If a statement fails.
    #[allow(clippy::must_use_candidate)] // Often only its effect matters.
    pub fn query(&self, sql: &str) -> String {
        match self.try_query(sql) {
            Ok(rows) => rows,
            Err(error) => panic!("{sql}: {error}"),
        }
    }

    /// Runs statements as the superuser.
    ///
    /// # Errors
    ///
    /// The output of `psql`.
    pub fn try_query(&self, sql: &str) -> Result<String, String> {
        Self::try_query_at(self.port, sql)
    }

    /// Runs statements as the superuser of the server at this port.
    ///
    /// # Errors
    ///
    /// The output of `psql`.
    pub fn try_query_at(port: u16, sql: &str) -> Result<String, String> {
        let mut psql = program(&programs().expect("it runs"), "psql");
        psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1"]);
        psql.args(["-U", "postgres", "-d", "postgres", "-p"]);
        psql.args([port.to_string().as_str(), "-c", sql]);
        let output = psql.stdin(Stdio::null()).output().expect("psql");
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// Ends the server as a crash does: without a checkpoint, and without a word to the standby.
    ///
    /// # Panics
    ///
    /// If it does not end.
    pub fn crash(&mut self) {
        let file = fs::read_to_string(self.folder.join("data/postmaster.pid")).expect("it runs");
        let process = file.lines().next().unwrap_or_default();
        succeed(Command::new("kill").args(["-QUIT", process]));
        let file = self.folder.join("data/postmaster.pid");
        wait("PostgreSQL ends", || !file.exists());
    }

    /// Starts the server again after [`Postgres::crash`].
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn restart(&mut self) {
        // The former supervisor deletes the folder when it ends, so it is ended without that.
        let _ = self.supervisor.kill();
        let _ = self.supervisor.wait();
        let started = Self::supervise(self.folder.clone(), self.port);
        *self = started;
        self.wait_until_it_accepts();
    }

    /// Gives a folder to the user that the server runs as.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub fn own(&self, folder: &Path) {
        if let Some(user) = owner() {
            let (uid, gid) = (user.uid.as_raw(), user.gid.as_raw());
            chown(folder, Some(uid), Some(gid)).expect("an owner");
        }
    }

    /// Makes the standby a primary.
    ///
    /// # Panics
    ///
    /// If it does not become one.
    pub fn promote(&self) {
        // The promotion may cancel the session of a statement that waits for it.
        self.query("select pg_promote(wait => false)");
        let recovers = "select pg_is_in_recovery()";
        wait("the promotion", || {
            self.try_query(recovers).as_deref() == Ok("f")
        });
    }

    /// Lets commits wait for a standby with this name.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn require_standby(&self, name: &str) {
        self.query(&format!(
            "alter system set synchronous_standby_names = '{name}'"
        ));
        self.query("select pg_reload_conf()");
        let state = "select sync_state from pg_stat_replication";
        wait("the standby", || self.query(state) == "sync");
    }

    /// Cancels the next wait of a commit for a synchronous standby, at the server of this port.
    ///
    /// # Panics
    ///
    /// If no commit waits.
    pub fn cancel_wait_for_standby(port: u16) {
        let cancel =
            "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'";
        wait("a commit that waits", || {
            Self::try_query_at(port, cancel).as_deref() == Ok("t")
        });
    }

    /// Starts a pooler that gives each transaction another connection to this server, if there is
    /// more than one; `None` if pgbouncer is not installed.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn pooler(&self, test: &str) -> Option<Pooler> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
        let mut programs = folders.map(|folder| folder.join("pgbouncer"));
        let program = programs.find(|program| program.is_file());
        if !can_run(test, "pgbouncer (package pgbouncer)", program.is_some()) {
            return None;
        }
        let (folder, port) = (new_folder(), free_address().port());
        let configuration = format!(
            "[databases]\npostgres = host=127.0.0.1 port={} user=postgres\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = any\npool_mode = transaction\nmin_pool_size = 3\ndefault_pool_size = 3\n\
             server_round_robin = 1\n",
            self.port
        );
        let file = folder.join("pgbouncer.ini");
        fs::write(&file, configuration).expect("a file");
        let (supervisor, alive) = supervise(&folder, &program?, &[file.as_ref()]);
        wait("pgbouncer accepts connections", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Some(Pooler {
            port,
            supervisor,
            alive,
        })
    }
}

/// A running pgbouncer, which ends when this is dropped or this process ends.
#[derive(Debug)]
pub struct Pooler {
    port: u16,
    supervisor: Child,
    alive: Option<ChildStdin>,
}

impl Pooler {
    /// A connection string for the superuser.
    #[must_use]
    pub fn url(&self) -> String {
        let port = self.port;
        format!("postgres://postgres@127.0.0.1:{port}/postgres")
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.alive.take());
        let _ = self.supervisor.wait();
    }
}

/// Starts a program whose files are in this folder.
fn supervise(folder: &Path, program: &Path, arguments: &[&OsStr]) -> (Child, Option<ChildStdin>) {
    let mut command = as_owner(Command::new("sh"));
    command
        .args(["-c", SUPERVISE, "sh"])
        .arg(folder)
        .arg(program);
    command.args(arguments).stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut supervisor = command.spawn().expect("a shell");
    let alive = supervisor.stdin.take();
    (supervisor, alive)
}

#[track_caller]
fn wait(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < until, "timed out waiting: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.alive.take());
        let _ = self.supervisor.wait();
    }
}

/// The folder with the programs of the newest PostgreSQL.
fn programs() -> Option<PathBuf> {
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let installed = installed
        .flatten()
        .map(|version| version.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut found: Vec<PathBuf> = installed.chain(in_path).collect();
    found.retain(|folder| folder.join("initdb").is_file() && folder.join("psql").is_file());
    found.sort();
    found.pop()
}

/// The user that the servers run as: PostgreSQL refuses to run as root.
fn owner() -> Option<User> {
    let found = |name| User::from_name(name).ok().flatten();
    match Uid::effective().is_root() {
        true => found("postgres").or_else(|| found("nobody")),
        false => None,
    }
}

fn as_owner(mut command: Command) -> Command {
    if let Some(user) = owner() {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    // The folder of the tests may not be readable for that user.
    command.current_dir("/");
    command
}

fn program(folder: &Path, name: &str) -> Command {
    let mut command = as_owner(Command::new(folder.join(name)));
    command.env_clear().env("LC_ALL", "C.UTF-8");
    command
}

fn new_folder() -> PathBuf {
    let folder = tempfile::Builder::new().prefix("tenure-postgres").tempdir();
    let folder = folder.expect("a folder").keep();
    if let Some(user) = owner() {
        let (uid, gid) = (user.uid.as_raw(), user.gid.as_raw());
        chown(&folder, Some(uid), Some(gid)).expect("an owner");
    }
    folder
}

fn succeed(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("a program");
    assert!(output.status.success(), "{command:?}: {output:?}");
}
