//! Flags that several commands share.

use std::path::PathBuf;

use crate::settings::CANDIDATE;
use clap::Args;
use tenure::config::Strategy;
use tenure_config::{ConfigError, Settings};

/// The address of the store.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// Address of the store; may be repeated [default: http://127.0.0.1:7400]
    #[arg(long, value_name = "URL")]
    pub(crate) server: Vec<String>,
    /// CA certificates (PEM) for stores at https addresses [default: the system's]
    #[arg(long, value_name = "FILE")]
    ca_file: Option<String>,
    /// File with the token for the store; it is read again when it changes
    #[arg(long, value_name = "FILE")]
    token_file: Option<String>,
    /// Client certificate (PEM) for the store; it is read again when it changes; with --client-key
    #[arg(long, value_name = "FILE")]
    client_certificate: Option<String>,
    /// Key of the client certificate (PEM)
    #[arg(long, value_name = "FILE")]
    client_key: Option<String>,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// The settings of a candidate.
#[derive(Debug, Args)]
pub(crate) struct CandidateArgs {
    /// Election to compete in
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    election: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Id of this candidate, unique per start [default: host-pid-random]
    #[arg(long, value_name = "ID")]
    candidate: Option<String>,
    /// Priority in the waiting queue; lower goes first [default: 100]
    #[arg(long, value_name = "NUMBER")]
    priority: Option<String>,
    /// Time until the lease expires without a renewal [default: 15s]
    #[arg(long, value_name = "DURATION")]
    lease_duration: Option<String>,
    /// Time between SIGTERM and SIGKILL [default: 4/15 of the lease duration, 4s]
    #[arg(long, value_name = "DURATION")]
    stop_grace: Option<String>,
    /// Election strategy: "lease" (in a store), "azure-blob" (by the lease of a blob), "kubernetes"
    /// (by a Lease object of a Kubernetes cluster), "bully" (among peers), "both" (to migrate from
    /// a store to peers, or back), or "static" (no other candidates) [default: lease]
    #[arg(long, value_parser = Strategy::NAMES, hide_possible_values = true)]
    strategy: Option<String>,
    /// Peers: node id of this member
    #[arg(long, value_name = "NUMBER")]
    node: Option<String>,
    /// Peers: all members including this one; the same list on each member
    #[arg(long, value_name = "NUMBER[@PRIORITY]=URL", value_delimiter = ',')]
    peers: Vec<String>,
    /// Fallback: all members including this one, which elect while the store is away; --node,
    /// --listen, --key-file and --state-dir then belong to the fallback
    #[arg(long, value_name = "NUMBER[@PRIORITY]=URL", value_delimiter = ',')]
    members: Vec<String>,
    /// Fallback: the number of members that are enough beside the store, or "lease", "balanced" or
    /// "majority" [default: balanced]
    #[arg(long, value_name = "NUMBER")]
    k: Option<String>,
    /// Peers: address to listen on [default: the port of this member's URL]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Peers: file with the secret that all members share
    #[arg(long, value_name = "FILE")]
    key_file: Option<String>,
    /// Peers: directory for the persistent state of this member [default: tenure-state]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<String>,
}

impl StoreArgs {
    /// The settings of a candidate: the file, overridden by the environment, overridden by these
    /// flags.
    pub(crate) fn settings(&self) -> Result<Settings, ConfigError> {
        let mut settings = Settings::load(CANDIDATE, self.config.as_deref())?;
        settings.set_named_flag("server", "servers", &self.server);
        settings.set_flag("ca_file", &self.ca_file);
        settings.set_flag("token_file", &self.token_file);
        settings.set_flag("client_certificate", &self.client_certificate);
        settings.set_flag("client_key", &self.client_key);
        Ok(settings)
    }
}

impl CandidateArgs {
    /// The settings of a candidate: the file, overridden by the environment, overridden by these
    /// flags.
    pub(crate) fn settings(&self) -> Result<Settings, ConfigError> {
        let mut settings = self.store.settings()?;
        for (key, value) in [
            ("election", &self.election),
            ("candidate", &self.candidate),
            ("priority", &self.priority),
            ("lease_duration", &self.lease_duration),
            ("stop_grace", &self.stop_grace),
            ("strategy", &self.strategy),
            ("fallback.k", &self.k),
        ] {
            settings.set_flag(key, value);
        }
        settings.set_flag("bully.peers", &self.peers);
        settings.set_flag("fallback.members", &self.members);
        let table = members_table(&settings);
        for (name, value) in [
            ("node", &self.node),
            ("listen", &self.listen),
            ("key_file", &self.key_file),
            ("state_dir", &self.state_dir),
        ] {
            settings.set_flag(&format!("{table}.{name}"), value);
        }
        Ok(settings)
    }
}

/// The table of the members, which has the same keys with and without a store.
pub(crate) fn members_table(settings: &Settings) -> &'static str {
    if settings.has_table("fallback") {
        "fallback"
    } else {
        "bully"
    }
}

/// The settings with some election, for commands that need none.
pub(crate) fn with_any_election(settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    if settings.origin("election").is_none() {
        settings.set_flag("election", &["any".into()]);
    }
    settings
}
