//! Who competes: a configuration, without what differs from candidate to candidate.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use tenure::Config;
use tenure::config::Strategy;
use tenure_lab::contestant::{Contestant as Simulated, DetectorKind, Way};
use tenure_lab::detector::DetectBy;
use toml::{Table, Value};

use crate::compare::unknown;
use crate::exit::{BAD_CONFIGURATION, Failure};
use crate::processes::{self, Network, STORE};

/// Who competes if nobody is named.
const DEFAULT: &[&str] = &["lease", "bully", "bully-no-quorum"];

/// The lease duration of those that are named: short, since a run is in real time, and no shorter,
/// since all share one machine.
const LEASE: Duration = Duration::from_secs(3);

/// How old a message may become: long for such a lease, for the same reason.
const MESSAGE_LIFETIME: Duration = Duration::from_millis(375);

#[derive(Debug)]
pub(super) struct Contestant {
    pub(super) name: String,
    pub(super) needs_store: bool,
    pub(super) lease_duration: Duration,
    /// The longest time without a leader after one that could not say good-bye.
    pub(super) worst_without_leader: Duration,
    is_peers: bool,
    settings: Table,
}

/// Those of these names, and one for each file.
pub(super) fn all(names: &[String], files: &[PathBuf]) -> Result<Vec<Contestant>, Failure> {
    let named: Vec<&str> = match names {
        [] if files.is_empty() => DEFAULT.to_vec(),
        named => named.iter().map(String::as_str).collect(),
    };
    let named = named.into_iter().map(of_name);
    named
        .chain(files.iter().map(|file| of_file(file)))
        .collect()
}

fn of_name(name: &str) -> Result<Contestant, Failure> {
    let way = Simulated::of_name(name).map_err(unknown)?.way;
    let mut settings = Table::new();
    settings.insert("lease_duration".into(), millis(LEASE));
    let peers = match way {
        Way::Lease => None,
        Way::Bully { detector, quorum } => {
            detector_name(detector).map(|detector| (detector, quorum))
        }
        _ => None,
    };
    match peers {
        Some((detector, quorum)) => {
            let mut bully = Table::new();
            bully.insert("message_lifetime".into(), millis(MESSAGE_LIFETIME));
            bully.insert("detector".into(), detector.into());
            bully.insert("quorum".into(), quorum.into());
            settings.insert("strategy".into(), "bully".into());
            settings.insert("bully".into(), bully.into());
        }
        None if way == Way::Lease => {}
        None => {
            let error = anyhow!(
                "contestant {name:?} can only be simulated; live there are lease, bully, bully-fixed, \
                 bully-phi, bully-pull, bully-on-demand, each bully also with -no-quorum, and files \
                 (--config)"
            );
            return Err(Failure::new(BAD_CONFIGURATION, error));
        }
    }
    Ok(Contestant::new(name.into(), settings)?)
}

/// What the library calls a detector, if it has it.
const fn detector_name(detector: DetectorKind) -> Option<&'static str> {
    match detector {
        DetectorKind::Of(DetectBy::Push) => Some("push"),
        DetectorKind::Of(DetectBy::PushFixed) => Some("push-fixed"),
        DetectorKind::Of(DetectBy::Phi) => Some("phi"),
        DetectorKind::Of(DetectBy::Pull) => Some("pull"),
        DetectorKind::Of(DetectBy::OnDemand) => Some("on-demand"),
        DetectorKind::Of(_) | DetectorKind::AttendanceRing => None,
    }
}

fn of_file(file: &Path) -> Result<Contestant, Failure> {
    // The library's message, for what is wrong with it by itself.
    Config::load(file)?;
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let settings = text.parse().with_context(|| file.display().to_string())?;
    Contestant::new(file.display().to_string(), settings)
        .map_err(|error| Failure::new(BAD_CONFIGURATION, error))
}

impl Contestant {
    fn new(name: String, mut settings: Table) -> anyhow::Result<Self> {
        // What says where the user's own processes are has no place here.
        for key in ["server", "servers", "candidate", "serve"] {
            settings.remove(key);
        }
        settings.insert("election".into(), "compare/live".into());
        if let Some(Value::Table(bully)) = settings.get_mut("bully") {
            for key in ["key", "key_file", "cluster"] {
                bully.remove(key);
            }
        }
        let strategy = settings.get("strategy").and_then(Value::as_str);
        let strategy = strategy.unwrap_or("lease").to_owned();
        if strategy == "azure-blob" {
            anyhow::bail!(
                "{name}: strategy = \"azure-blob\" can't be compared: the store that is started for it is \
                 a lease store; compare \"lease\" with these timings"
            );
        }
        let mut contestant = Self {
            name,
            needs_store: strategy != "bully",
            lease_duration: Duration::ZERO,
            worst_without_leader: Duration::ZERO,
            is_peers: strategy == "bully" || strategy == "both",
            settings,
        };
        // As the first of three will read it.
        let folder = tempfile::tempdir()?;
        let network = Network::start(&[STORE, 1, 2, 3])?;
        let config = Config::load(contestant.write(folder.path(), 1, &network)?)?;
        if matches!(config.strategy(), Strategy::Static) {
            anyhow::bail!("{}: strategy = \"static\" elects nobody", contestant.name);
        }
        contestant.lease_duration = config.timings().lease_duration();
        contestant.worst_without_leader = processes::worst_without_leader(&config)?;
        Ok(contestant)
    }

    /// Writes a candidate's configuration file.
    pub(super) fn write(
        &self,
        folder: &Path,
        candidate: u32,
        network: &Network,
    ) -> anyhow::Result<PathBuf> {
        let mut settings = self.settings.clone();
        settings.insert("candidate".into(), candidate.to_string().into());
        if self.needs_store {
            let store = format!("http://{}", network.link(candidate, STORE));
            settings.insert("servers".into(), vec![store].into());
        }
        if self.is_peers {
            let bully = settings
                .entry("bully")
                .or_insert_with(|| Table::new().into());
            let bully = bully.as_table_mut().context("\"bully\" is a table")?;
            let peers = network.peers_of(candidate);
            let peers: Vec<&str> = peers.split(',').collect();
            let state = folder.join(format!("state-{candidate}"));
            bully.insert("node".into(), i64::from(candidate).into());
            bully.insert("peers".into(), peers.into());
            bully.insert(
                "listen".into(),
                network.listens(candidate).to_string().into(),
            );
            bully.insert(
                "state_dir".into(),
                state.to_string_lossy().into_owned().into(),
            );
        }
        let path = folder.join(format!("candidate-{candidate}.toml"));
        fs::write(&path, settings.to_string())?;
        Ok(path)
    }
}

fn millis(duration: Duration) -> Value {
    format!("{}ms", duration.as_millis()).into()
}
