//! Candidates of several programs on one `Lease` of a real API server, each as published. While they
//! lead they write [ticks](crate::ticks).

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::needs::kubernetes_python;
use crate::process::{built, command};
use crate::servers::server;

/// The program of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elector {
    /// `tenure run`.
    Tenure,
    /// client-go 0.37, which does not release.
    ClientGo,
    /// client-go 0.37, which releases the object when its term ends.
    ReleasingClientGo,
    /// client-go 0.32, which releases the object when its term ends.
    OldClientGo,
    /// A manager of controller-runtime, which releases the object when its term ends.
    ControllerRuntime,
    /// The Python client.
    Python,
}

/// The place of a candidate.
#[derive(Clone, Debug)]
pub struct Place {
    /// The address of the API server, or that of a proxy in front of it.
    pub url: String,
    /// The folder with the files of a pod.
    pub files: PathBuf,
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub lease: String,
    /// The lease duration, in whole seconds.
    pub duration: Duration,
    /// The file of ticks.
    pub ticks: PathBuf,
}

/// The client of Python.
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/kubernetes/client.py");

impl Elector {
    /// A short name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tenure => "tenure",
            Self::ClientGo => "go",
            Self::ReleasingClientGo => "go-releases",
            Self::OldClientGo => "go-old",
            Self::ControllerRuntime => "manager",
            Self::Python => "python",
        }
    }

    /// The command of a candidate with this identity; `None` if the test cannot run it.
    #[must_use]
    pub fn command(self, test: &str, identity: &str, place: &Place) -> Option<Command> {
        let seconds = place.duration.as_secs();
        let program = match self {
            Self::Tenure => return Some(place.tenure(identity)),
            Self::ClientGo | Self::ReleasingClientGo => server(test, "client-go-0.37")?,
            Self::OldClientGo => server(test, "client-go-0.32")?,
            Self::ControllerRuntime => server(test, "controller-runtime")?,
            Self::Python => kubernetes_python(test)?,
        };
        let mut command = Command::new(program);
        if self == Self::Python {
            command
                .arg(PYTHON)
                .arg(&place.url)
                .arg(&place.ticks)
                .args([&place.namespace, &place.lease, identity])
                .env("POD_FILES", &place.files)
                .env("LEASE_DURATION", seconds.to_string());
            return Some(command);
        }
        command
            .args(["--server", &place.url])
            .arg("--token-file")
            .arg(place.files.join("token"))
            .arg("--ca")
            .arg(place.files.join("ca.crt"))
            .args(["--namespace", &place.namespace])
            .args(["--name", &place.lease, "--identity", identity])
            .args(["--lease-duration", &format!("{seconds}s")])
            // The proportions of the defaults, which are 10 s and 2 s for a lease of 15 s.
            .args(["--renew-deadline", &format!("{}ms", seconds * 2_000 / 3)])
            .args(["--retry-period", &format!("{}ms", seconds * 2_000 / 15)])
            .arg("--ticks")
            .arg(&place.ticks);
        if self != Self::ClientGo {
            command.arg("--release");
        }
        Some(command)
    }
}

impl Place {
    fn tenure(&self, identity: &str) -> Command {
        let mut command = self.tenure_with(&["run", "--log-format", "json"]);
        command
            .args(["--candidate", identity, "--lease-duration"])
            .arg(format!("{}s", self.duration.as_secs()))
            .arg("--")
            .arg(built("tenure-test-worker"))
            .arg(&self.ticks);
        command
    }

    /// The command `tenure` with these arguments, for the election by the object.
    #[must_use]
    pub fn tenure_with(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments);
        command
            .env("TENURE_ELECTION", "tests/job")
            .env("TENURE_STRATEGY", "kubernetes")
            .env("TENURE_KUBERNETES_URL", &self.url)
            .env("TENURE_KUBERNETES_NAMESPACE", &self.namespace)
            .env("TENURE_KUBERNETES_LEASE", &self.lease)
            .env("TENURE_KUBERNETES_TOKEN_FILE", self.files.join("token"))
            .env("TENURE_KUBERNETES_CA_FILE", self.files.join("ca.crt"));
        command
    }
}
