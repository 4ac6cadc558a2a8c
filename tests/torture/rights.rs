//! The access file and the configuration of the store under test, which change while the store runs.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use tenure_sim::sim::Rng;
use tenure_tests::access_file::{self, Principal};
use tenure_tests::flood::Target;
use tenure_tests::wire::{Endpoint, Wire, bearer};
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::clients::{NAMESPACE, Tokens};
use crate::faults::RoundError;
use crate::history::Recorder;
use crate::server::Server;

/// The principals that lose and get their tokens. Contenders of one principal have one owner.
pub(crate) const CONTENDERS: [&str; 4] =
    ["contender-0", "contender-1", "contender-2", "contender-3"];
pub(crate) const READERS: [&str; 2] = ["reader-0", "reader-1"];
pub(crate) const OPERATOR: &str = "operator";
/// The principal of the checks themselves, which keeps its token.
pub(crate) const ADMIN: &str = "admin";

/// The longest time until a changed file is in force. The store looks for changes twice a second, on
/// a machine that is busy with its clients.
const RELOAD: Duration = Duration::from_secs(20);

/// The time after which waits and streams of a removed token have ended.
const END_OF_WAITS: Duration = Duration::from_secs(1);

/// The contents of the configuration, which the store reads at its start only.
const CONFIG: &str = "[serve]\nmax_waiters_per_lease = 5000\n";

/// The files and the principals in them.
#[derive(Debug)]
pub(crate) struct Rights {
    access: PathBuf,
    config: PathBuf,
    store: Endpoint,
    principals: Vec<Principal>,
    /// The tenant of another namespace.
    tenant: Principal,
    admin: Principal,
    /// The principals without their tokens, and their lines in the access file.
    removed: Vec<(Principal, String)>,
}

impl Rights {
    /// Writes both files into this folder.
    pub(crate) fn new(folder: &Path, store: SocketAddr) -> io::Result<Self> {
        let principal = |name| {
            let role = match name {
                _ if CONTENDERS.contains(&name) => "candidate",
                OPERATOR => "operator",
                _ => "read",
            };
            Principal::new(name, role, NAMESPACE)
        };
        let names = CONTENDERS.into_iter().chain(READERS).chain([OPERATOR]);
        let rights = Self {
            access: folder.join("access.toml"),
            config: folder.join("tenure.toml"),
            store: Endpoint {
                address: store,
                tls: None,
            },
            principals: names.map(principal).collect(),
            tenant: Principal::new("tenant", "candidate", "other"),
            admin: Principal::new(ADMIN, "admin", "*"),
            removed: Vec::new(),
        };
        access_file::write(&rights.config, CONFIG)?;
        access_file::write(&rights.access, &rights.text())?;
        Ok(rights)
    }

    /// The arguments of a store that reads the files.
    pub(crate) fn arguments(&self) -> [PathBuf; 5] {
        [
            // The tenant uses all protocols.
            "--azure-dev".into(),
            "--access".into(),
            self.access.clone(),
            "--config".into(),
            self.config.clone(),
        ]
    }

    /// The tokens of clients.
    pub(crate) fn tokens(&self) -> Tokens {
        let all = self.principals.iter().chain([&self.admin]);
        all.map(|one| (one.name, one.token().to_owned())).collect()
    }

    /// The target of a flood by the tenant.
    pub(crate) fn flood_target(&self) -> Target {
        Target {
            store: self.store.clone(),
            token: self.tenant.token().to_owned(),
            stored: 0,
        }
    }

    /// Removes tokens, or gives all of them back.
    pub(crate) fn change(
        &mut self,
        server: &mut Server,
        recorder: &Recorder,
        dice: &mut Rng,
    ) -> Result<(), RoundError> {
        match self.removed.len() {
            0 => self.remove(server, recorder, dice),
            1..=3 if dice.below(3) == 0 => self.remove(server, recorder, dice),
            _ => self.give_back(server, recorder, dice),
        }
    }

    /// Removes the tokens of one or two principals, and waits until the store refuses them and all
    /// of their waits and streams have ended.
    fn remove(
        &mut self,
        server: &mut Server,
        recorder: &Recorder,
        dice: &mut Rng,
    ) -> Result<(), RoundError> {
        let mut names = Vec::new();
        for _ in 0..=dice.below(2) {
            let chosen = dice.below(self.principals.len() as u64) as usize;
            let principal = self.principals.swap_remove(chosen);
            let left = match dice.below(3) {
                0 => String::new(),
                1 => principal.without_token(),
                // No client has this token.
                _ => principal.with_another_token().with_token(),
            };
            names.push(principal.name);
            self.removed.push((principal, left));
        }
        recorder.fault(format!("the tokens of {names:?} are removed"));
        recorder.removing(&names);
        self.write(server, dice)?;
        self.wait_until_in_force()?;
        recorder.mark(|removal| &mut removal.in_force);
        recorder.fault("the removal is in force");
        sleep(END_OF_WAITS);
        recorder.mark(|removal| &mut removal.settled);
        Ok(())
    }

    /// Gives all tokens back, and waits until they are in force.
    pub(crate) fn give_back(
        &mut self,
        server: &mut Server,
        recorder: &Recorder,
        dice: &mut Rng,
    ) -> Result<(), RoundError> {
        if self.removed.is_empty() {
            return Ok(());
        }
        recorder.fault("all tokens are given back");
        recorder.mark(|removal| &mut removal.give_back);
        let removed = self.removed.drain(..).map(|(principal, _)| principal);
        self.principals.extend(removed);
        self.write(server, dice)?;
        self.wait_until_in_force()?;
        recorder.mark(|removal| &mut removal.end);
        recorder.fault("all tokens are in force");
        Ok(())
    }

    /// Makes both files wrong for a moment. The store must keep the rules before.
    pub(crate) fn mistake(
        &self,
        server: &mut Server,
        recorder: &Recorder,
        dice: &mut Rng,
    ) -> Result<(), RoundError> {
        let text = self.text();
        let wrong = match dice.below(4) {
            0 => Some(text.replace("version = 1", "version = 7")),
            1 => Some(text.replacen("sha256 = \"", "sha256 = \"xyz", 1)),
            2 => Some(text + "[[principal]]\nname = \"half"),
            _ => None,
        };
        recorder.fault("the access file and the configuration are wrong");
        write(&self.config, "[serve\nmax_waiters")?;
        match wrong {
            Some(wrong) => write(&self.access, &wrong)?,
            None => fs::remove_file(&self.access).map_err(|error| failed(&error))?,
        }
        for _ in 0..dice.below(3) {
            server.signal(Signal::SIGHUP);
        }
        self.wait_for_reload(0)?;
        sleep(Duration::from_millis(dice.below(600)));
        write(&self.config, CONFIG)?;
        self.write(server, dice)?;
        self.wait_for_reload(1)?;
        recorder.fault("the access file and the configuration are right again");
        Ok(())
    }

    fn text(&self) -> String {
        let all = self.principals.iter().chain([&self.tenant, &self.admin]);
        let with_token: String = all.map(Principal::with_token).collect();
        let removed: String = self.removed.iter().map(|(_, left)| &**left).collect();
        format!("version = 1\n{with_token}{removed}")
    }

    /// Writes the access file. Half of the times a signal tells the store to read it at once.
    fn write(&self, server: &mut Server, dice: &mut Rng) -> Result<(), RoundError> {
        write(&self.access, &self.text())?;
        if dice.below(2) == 0 {
            server.signal(Signal::SIGHUP);
        }
        Ok(())
    }

    /// Waits until the store shows the tokens of the file, and no removed one.
    fn wait_until_in_force(&self) -> Result<(), RoundError> {
        let all = self.principals.iter().chain([&self.tenant, &self.admin]);
        let expected: BTreeSet<String> = all.map(|one| one.id().to_string()).collect();
        let removed = self.removed.iter();
        let removed: BTreeSet<String> = removed.map(|(one, _)| one.id().to_string()).collect();
        self.wait_for("/v1/access", "the access file is not in force", |body| {
            let view: Value = serde_json::from_slice(body).unwrap_or_default();
            let principals = view["principals"].as_array().into_iter().flatten();
            let secrets =
                principals.flat_map(|one| one["secrets"].as_array().into_iter().flatten());
            let ids = secrets.filter_map(|secret| secret["id"].as_str().map(str::to_owned));
            let ids: BTreeSet<String> = ids.collect();
            expected.is_subset(&ids) && removed.is_disjoint(&ids)
        })
    }

    /// Waits until the last reload of the access file has failed (0) or succeeded (1).
    fn wait_for_reload(&self, outcome: u8) -> Result<(), RoundError> {
        let line = format!("tenure_reload_successful{{what=\"access\"}} {outcome}");
        let otherwise = format!("the metrics do not have {line:?}");
        self.wait_for("/metrics", &otherwise, |body| {
            String::from_utf8_lossy(body).lines().any(|one| one == line)
        })
    }

    /// Asks for this path until the answer has these contents.
    fn wait_for(
        &self,
        path: &str,
        otherwise: &str,
        has_come: impl Fn(&[u8]) -> bool,
    ) -> Result<(), RoundError> {
        let header = bearer(self.admin.token());
        let asking = async {
            loop {
                if let Ok(mut wire) = Wire::connect(&self.store, 1).await
                    && let Ok((200, body)) = wire.ask_for_body("GET", path, &header, None).await
                    && has_come(&body)
                {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let answered = Handle::current().block_on(async { timeout(RELOAD, asking).await });
        answered.map_err(|_| RoundError::Store(format!("after {RELOAD:?} {otherwise}")))
    }
}

fn write(path: &Path, text: &str) -> Result<(), RoundError> {
    access_file::write(path, text).map_err(|error| failed(&error))
}

fn failed(error: &io::Error) -> RoundError {
    RoundError::Machine(error.to_string())
}
