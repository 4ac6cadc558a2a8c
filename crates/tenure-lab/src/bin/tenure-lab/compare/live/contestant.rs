//! Strategies under comparison. A strategy is a configuration without the settings that differ
//! between candidates.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tenure::Config;
use tenure::config::{Peer, Strategy};
use tenure_core::bully::GroupGuarantee;
use tenure_lab::contestant_of_name;
use tenure_sim::contestant::{Algorithm, Contestant, DetectorKind};
use toml::{Table, Value};

use super::super::names;
use super::super::settings::{of_config, worst_without_leader};
use super::super::summary::Summary;
use super::network::{Network, STORE};
use crate::exit::{self, BAD_CONFIGURATION};

/// The default strategies.
const DEFAULT: &[&str] = &["lease", "bully", "bully-no-quorum"];

/// The lease duration of named strategies: short, because a run is in real time, and no shorter,
/// because all candidates share one machine.
const LEASE: Duration = Duration::from_secs(3);

/// The message lifetime among peers: long for such a lease, for the same reason.
const MESSAGE_LIFETIME: Duration = Duration::from_millis(375);

/// The secret of every group, so that the cost includes authentication. It is used for one run
/// only.
const KEY: &str = "the key of a live comparison";

/// A strategy with the settings of its candidates.
#[derive(Debug)]
pub(in super::super) struct LiveContestant {
    pub(super) name: String,
    pub(super) needs_store: bool,
    pub(super) lease_duration: Duration,
    /// The longest time without a leader after a leader that could not release its lease.
    pub(super) worst_without_leader: Duration,
    /// The same strategy for a simulation, which has its promise and its detection time.
    pub(super) simulated: Contestant,
    /// The summary of a user's own file.
    pub(super) summary: Option<Summary>,
    /// The table of the members, and the name of their list; `None` for a lease alone.
    group: Option<(&'static str, &'static str)>,
    /// The priorities of the first members among peers, in the order of their node ids; others have
    /// the default.
    priorities: Vec<u32>,
    settings: Table,
}

/// The strategies with these names, and one for each file.
pub(in super::super) fn contestants(
    names: &[String],
    files: &[PathBuf],
) -> anyhow::Result<Vec<LiveContestant>> {
    let names = names::or_default(names, !files.is_empty(), DEFAULT);
    names::check_once("--contestant", &names)?;
    names::check_once("--config", files.iter().map(|file| file.display()))?;
    let named = names.into_iter().map(of_name);
    named
        .chain(files.iter().map(|file| of_file(file)))
        .collect()
}

fn of_name(name: &str) -> anyhow::Result<LiveContestant> {
    let simulated = contestant_of_name(name).map_err(names::unknown)?;
    let named = name.contains('@').then(|| simulated.term.lease_duration());
    let mut settings = Table::new();
    settings.insert("lease_duration".into(), millis(named.unwrap_or(LEASE)));
    match simulated.algorithm {
        Algorithm::Lease => {}
        Algorithm::Bully {
            detector: DetectorKind::Of(detector),
            quorum,
        } => {
            let mut bully = Table::new();
            bully.insert("message_lifetime".into(), millis(MESSAGE_LIFETIME));
            bully.insert("detector".into(), detector.name().into());
            bully.insert("quorum".into(), quorum.into());
            settings.insert("strategy".into(), "bully".into());
            settings.insert("bully".into(), bully.into());
        }
        Algorithm::Fallback {
            k,
            without_store: true,
            ..
        } => {
            let mut fallback = Table::new();
            fallback.insert("message_lifetime".into(), millis(MESSAGE_LIFETIME));
            if let Some(k) = k {
                fallback.insert("k".into(), Value::Integer(k as i64));
            }
            settings.insert("fallback".into(), fallback.into());
        }
        _ => {
            return Err(exit::bad_configuration(format!(
                "contestant {name:?} can only be simulated; live ones are lease, fallback, bully, bully-fixed, \
                 bully-phi, bully-pull, bully-on-demand, each bully also with -no-quorum, and files \
                 (--config)"
            )));
        }
    }
    Ok(LiveContestant::new(name.into(), settings, Vec::new())?.0)
}

fn of_file(file: &Path) -> anyhow::Result<LiveContestant> {
    // The error of the library, if the file itself is wrong.
    let config = Config::load(file)?;
    let name = file.display().to_string();
    let strategy = &config.strategy;
    let why = match strategy {
        Strategy::Lease | Strategy::Bully(_) | Strategy::Both(_) => None,
        Strategy::Static => Some("it has no election"),
        // A comparison must not use a service of the user.
        _ => Some(
            "its lease is in another service, which a comparison must not use; compare \"lease\"",
        ),
    };
    if let Some(why) = why {
        return Err(names::not_comparable(&name, strategy, why));
    }
    let text = fs::read_to_string(file).with_context(|| name.clone())?;
    let mut settings: Table = text.parse().with_context(|| name.clone())?;
    let mut priorities = Vec::new();
    if let Some(bully) = strategy.bully() {
        let mut peers = bully.peers.clone();
        peers.sort_by_key(|peer| peer.node);
        priorities.extend(peers.iter().map(|peer| peer.priority));
        // The default depends on the number of members, which may be different here.
        let rules = bully.plan(config.timings())?.settings;
        let quorum = rules.guarantee() == GroupGuarantee::Quorum;
        if let Some(Value::Table(bully)) = settings.get_mut("bully") {
            bully.insert("quorum".into(), quorum.into());
        }
    }
    let wrong = |error| exit::error(BAD_CONFIGURATION, error);
    let (contestant, as_read) =
        LiveContestant::new(name.clone(), settings, priorities).map_err(wrong)?;
    let mut summary = Summary::new(name, &as_read)?;
    summary.members = strategy.bully().map(|_| contestant.priorities.len());
    Ok(LiveContestant {
        summary: Some(summary),
        ..contestant
    })
}

impl LiveContestant {
    /// The strategy, and the configuration that its first candidate reads.
    fn new(
        name: String,
        mut settings: Table,
        priorities: Vec<u32>,
    ) -> anyhow::Result<(Self, Config)> {
        // These settings are about the user's own processes.
        for key in [
            "servers",
            "ca",
            "ca_file",
            "token",
            "token_file",
            "client_certificate",
            "client_key",
            "candidate",
            "serve",
            "access",
            "audit",
            "tls",
            "azure",
            "azure_blob",
            "kubernetes",
        ] {
            settings.remove(key);
        }
        settings.insert("election".into(), "compare/live".into());
        for table in ["bully", "fallback"] {
            let Some(Value::Table(bully)) = settings.get_mut(table) else {
                continue;
            };
            for key in ["key_file", "cluster"] {
                bully.remove(key);
            }
        }
        let strategy = settings.get("strategy").and_then(Value::as_str);
        let strategy = strategy.unwrap_or("lease").to_owned();
        let mut contestant = Self {
            name,
            needs_store: strategy != "bully",
            lease_duration: Duration::ZERO,
            worst_without_leader: Duration::ZERO,
            simulated: Contestant::new(Algorithm::Lease),
            summary: None,
            group: match &strategy[..] {
                "bully" | "both" => Some(("bully", "peers")),
                _ if settings.contains_key("fallback") => Some(("fallback", "members")),
                _ => None,
            },
            priorities,
            settings,
        };
        // The configuration of the first of three candidates.
        let folder = tempfile::tempdir()?;
        let network = Network::start(&[STORE, 1, 2, 3])?;
        let file = contestant.write(folder.path(), 1, &network)?;
        let config = Config::load(&file)?;
        contestant.simulated = of_config(&file, &config)?;
        contestant.lease_duration = config.timings().lease_duration();
        contestant.worst_without_leader = worst_without_leader(&config)?;
        Ok((contestant, config))
    }

    /// This many candidates, best first: in the order of their priorities, then of their numbers.
    pub(super) fn best_first(&self, candidates: u32) -> Vec<u32> {
        let mut all: Vec<u32> = (1..=candidates).collect();
        if self.group.is_some() {
            all.sort_by_key(|&number| (self.priority(number), number));
        }
        all
    }

    /// The priority of a member.
    fn priority(&self, number: u32) -> u32 {
        let priority = self.priorities.get(number as usize - 1);
        priority.copied().unwrap_or(Peer::DEFAULT_PRIORITY)
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
        // The first candidate is also first in the waiting queue, unless the user's settings have a
        // priority.
        // With a fallback, the priority is in the list of members.
        let has_fallback = self.group.is_some_and(|(table, _)| table == "fallback");
        if !has_fallback {
            let priority = settings.entry("priority");
            priority.or_insert_with(|| i64::from(candidate).into());
        }
        if self.needs_store {
            let store = format!("http://{}", network.address(candidate, STORE));
            settings.insert("servers".into(), vec![store].into());
        }
        if let Some((table, list)) = self.group {
            let bully = settings.entry(table).or_insert_with(|| Table::new().into());
            let bully = bully.as_table_mut().context("the members are a table")?;
            let peers = network.peers_of(candidate, |peer| self.priority(peer));
            let peers: Vec<&str> = peers.split(',').collect();
            let state = folder.join(format!("state-{candidate}"));
            bully.insert("node".into(), i64::from(candidate).into());
            bully.insert("key".into(), KEY.into());
            bully.insert(list.into(), peers.into());
            bully.insert(
                "listen".into(),
                network.listen_address(candidate).to_string().into(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> LiveContestant {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("mine.toml");
        fs::write(&file, text).expect("a file");
        of_file(&file).expect("a contestant")
    }

    /// The configuration that candidate 2 of five reads.
    fn as_read(contestant: &LiveContestant) -> Config {
        let folder = tempfile::tempdir().expect("a folder");
        let network = Network::start(&[STORE, 1, 2, 3, 4, 5]).expect("a network");
        let file = contestant.write(folder.path(), 2, &network);
        Config::load(file.expect("a file")).expect("a configuration")
    }

    #[test]
    fn members_keep_the_priorities_of_the_users_file() {
        let contestant = of(r#"
            election = "a/b"
            strategy = "bully"
            [bully]
            node = 8
            peers = ["9@20=http://10.0.0.9:7500", "7@30=http://10.0.0.7:7500", "8@10=http://10.0.0.8:7500"]
        "#);
        // 7, 8 and 9 are now 1, 2 and 3; all others have the default priority, 100.
        let best_first = [2, 3, 1, 4, 5];
        assert_eq!(contestant.best_first(5), best_first);
        let config = as_read(&contestant);
        let bully = config.strategy.bully().expect("peers");
        let rules = bully.plan(config.timings()).expect("a plan").settings;
        let members: Vec<u32> = rules.members().iter().map(|node| node.0).collect();
        assert_eq!((members, rules.me().0), (best_first.to_vec(), 2));
    }

    #[test]
    fn a_strategy_of_two_members_has_no_quorum_among_five_candidates() {
        let contestant = of(r#"
            election = "a/b"
            strategy = "bully"
            [bully]
            node = 1
            peers = ["1=http://10.0.0.1:7500", "2=http://10.0.0.2:7500"]
        "#);
        let config = as_read(&contestant);
        let bully = config.strategy.bully().expect("peers");
        let rules = bully.plan(config.timings()).expect("a plan").settings;
        assert_eq!(rules.guarantee(), GroupGuarantee::BestEffort);
    }

    #[test]
    fn waiters_are_ordered_by_number_unless_the_users_file_has_a_priority() {
        for (line, priority) in [("", 2), ("priority = 7", 7)] {
            let contestant = of(&format!("election = \"a/b\"\n{line}"));
            assert_eq!(as_read(&contestant).priority, priority);
            assert_eq!(contestant.best_first(3), [1, 2, 3]);
        }
    }
}
