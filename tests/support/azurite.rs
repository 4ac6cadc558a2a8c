//! Azurite, the emulator of Azure's storage (the npm package `azurite`), as a process.

use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use tempfile::TempDir;

use crate::needs::{can_run, output_of};
use crate::ports::free_address;
use crate::process::Process;
use crate::wait_for;

/// An emulator in memory. It is killed when this is dropped.
#[derive(Debug)]
pub struct Azurite {
    address: SocketAddr,
    _process: Process,
    _folder: TempDir,
}

impl Azurite {
    /// Starts one; `None` if the test cannot run.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn start(test: &str) -> Option<Self> {
        let found = find();
        let needs = "Azurite, such as the one of tests/azure/package.json, in a folder that \
                     TENURE_AZURE_NODE names";
        let is_there = can_run(test, needs, found.is_some());
        let azurite = found.filter(|_| is_there)?;
        let folder = tempfile::tempdir().expect("a folder");
        let address = free_address();
        let mut emulator = Command::new(azurite);
        emulator
            .args(["--blobPort", &address.port().to_string()])
            .args(["--skipApiVersionCheck", "--silent"])
            .args(["--inMemoryPersistence", "--disableTelemetry"])
            .current_dir(folder.path());
        let mut process = Process::spawn(&mut emulator);
        wait_for("the emulator", || {
            assert!(
                !process.has_ended(),
                "the emulator has ended: {}",
                process.stderr()
            );
            TcpStream::connect(address).ok()
        });
        Some(Self {
            address,
            _process: process,
            _folder: folder,
        })
    }

    /// The address that it listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The program that `TENURE_AZURITE` names, that is among the packages of `TENURE_AZURE_NODE`, or
/// that is installed.
fn find() -> Option<String> {
    let named = std::env::var("TENURE_AZURITE").ok();
    let among = std::env::var("TENURE_AZURE_NODE").ok();
    let among = among.map(|folder| format!("{folder}/node_modules/.bin/azurite-blob"));
    let works = |program: &String| output_of(Command::new(program).arg("--version")).is_some();
    let programs = [named, among, Some("azurite-blob".into())];
    let found = programs.into_iter().flatten().find(works);
    // This asks `npx` for the path of the program. `npx` must not install it, and must not be its
    // parent, because the program would outlive `npx`.
    let ask = ["--offline", "--no-install", "-c", "command -v azurite-blob"];
    found.or_else(|| output_of(Command::new("npx").args(ask)).filter(works))
}
