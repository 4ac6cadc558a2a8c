//! Azurite, the emulator of Azure's storage (the npm package `azurite`), as a process.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;

use tempfile::TempDir;

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
    /// Starts the one that `TENURE_AZURITE` names, or `azurite-blob`; `None` where it is not installed,
    /// which it says.
    ///
    /// # Panics
    ///
    /// If it does not come up.
    #[must_use]
    pub fn start() -> Option<Self> {
        let azurite = std::env::var("TENURE_AZURITE").unwrap_or_else(|_| "azurite-blob".into());
        let is_there = Command::new(&azurite).arg("--version").output();
        if !is_there.is_ok_and(|output| output.status.success()) {
            eprintln!("NOT TESTED: there is no {azurite}; name one in TENURE_AZURITE");
            return None;
        }
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
