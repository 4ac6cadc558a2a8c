//! Azurite, the emulator of Azure's storage (the npm package `azurite`), as a process.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;

use tempfile::TempDir;

use crate::needs::{can_run, said};
use crate::process::Process;
use crate::wait_for;

/// An emulator that forgets everything at its end. It is killed when it is dropped.
#[derive(Debug)]
pub struct Azurite {
    address: SocketAddr,
    _process: Process,
    _folder: TempDir,
}

impl Azurite {
    /// Starts one; `None` where the test can't run.
    ///
    /// # Panics
    ///
    /// If it does not come up.
    #[must_use]
    pub fn start(test: &str) -> Option<Self> {
        let found = find();
        let needs = "Azurite, such as the one of tests/azure/package.json, in a folder that \
                     TENURE_AZURE_NODE names";
        let is_there = can_run(test, needs, found.is_some());
        let azurite = found.filter(|_| is_there)?;
        let folder = tempfile::tempdir().expect("a folder");
        let address = {
            // It is free again when it is known.
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            listener.local_addr().expect("an address")
        };
        let mut emulator = Command::new(azurite);
        emulator
            .args(["--blobPort", &address.port().to_string()])
            .args(["--skipApiVersionCheck", "--silent"])
            .args(["--inMemoryPersistence", "--disableTelemetry"])
            .current_dir(folder.path());
        let mut process = Process::spawn(&mut emulator);
        wait_for("the emulator", || {
            assert!(!process.has_ended(), "it has ended: {}", process.stderr());
            TcpStream::connect(address).ok()
        });
        Some(Self {
            address,
            _process: process,
            _folder: folder,
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The one that `TENURE_AZURITE` names, is among the packages of `TENURE_AZURE_NODE`, or is installed.
fn find() -> Option<String> {
    let named = std::env::var("TENURE_AZURITE").ok();
    let among = std::env::var("TENURE_AZURE_NODE").ok();
    let among = among.map(|folder| format!("{folder}/node_modules/.bin/azurite-blob"));
    let works = |program: &String| said(Command::new(program).arg("--version")).is_some();
    let programs = [named, among, Some("azurite-blob".into())];
    let found = programs.into_iter().flatten().find(works);
    // What `npx` would start: it installs nothing, and what it starts would outlive it.
    let ask = ["--offline", "--no-install", "-c", "command -v azurite-blob"];
    found.or_else(|| said(Command::new("npx").args(ask)).filter(works))
}
