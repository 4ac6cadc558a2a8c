//! Tests of the description of the HTTP API (`docs/openapi.json`) with the tools of others: the
//! validator of the specification, random requests by schemathesis, and a client that a generator
//! makes for Python. The samples of `docs/languages.md` are tested here, too.
//!
//! They need Python with the packages of `requirements.txt`: `TENURE_API_PYTHON` names an
//! interpreter (`.ci/run` makes it). Without it these tests print a message and pass; if `CI=true`,
//! they fail.

mod client;
mod random_requests;
mod samples;

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use tenure_tests::needs::{can_run, output_of};
use tenure_tests::process::{Process, command, output};
use tenure_tests::wait_for;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/api");
const DESCRIPTION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");

/// The folder of the interpreter with the packages, and of their commands, for this test.
fn python(test: &str) -> Option<PathBuf> {
    let named = std::env::var("TENURE_API_PYTHON").unwrap_or_else(|_| "python3".into());
    let modules = "import schemathesis, openapi_spec_validator, openapi_python_client, sys";
    let script = format!("{modules}; print(sys.exec_prefix)");
    let prefix = output_of(Command::new(named).args(["-c", &script]));
    let needs = "the packages of tests/api/requirements.txt, in a virtual environment whose python \
                 TENURE_API_PYTHON names";
    can_run(test, needs, prefix.is_some())
        .then(|| Path::new(&prefix.unwrap_or_default()).join("bin"))
}

/// A store with access control, as a process.
struct Store {
    process: Process,
    address: SocketAddr,
    token: String,
    folder: TempDir,
}

impl Store {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| {
            let path = folder.path().join(name);
            path.to_str().expect("a path of text").to_owned()
        };
        let (access, token, data) = (path("access.toml"), path("token"), path("data"));
        fs::write(&access, "version = 1\n").expect("an access file");
        let own = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&access, own).expect("an access file");
        let create = [
            "token",
            "create",
            "ada",
            "--role",
            "admin",
            "--namespace",
            "*",
            "--file",
            &access,
            "--output",
            &token,
        ];
        let created = output(&mut command(&create));
        assert!(created.status.success(), "{created:?}");
        let mut serve = command(&["serve", "--listen", "127.0.0.1:0", "--data-dir", &data]);
        // The requests with wrong credentials come from many addresses, so that they get 401 and
        // not 429.
        serve.env("TENURE_ACCESS_FILE", &access);
        serve.env("TENURE_ACCESS_TRUSTED_PROXIES", "127.0.0.1");
        let process = Process::spawn(&mut serve);
        let address = wait_for("the store", || {
            let stdout = process.stdout();
            let line = stdout.lines().next()?;
            line.strip_prefix("listening on http://")?.parse().ok()
        });
        let token = fs::read_to_string(&token).expect("a token");
        Self {
            process,
            address,
            token: token.trim().to_owned(),
            folder,
        }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

#[track_caller]
fn assert_success(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    text
}
