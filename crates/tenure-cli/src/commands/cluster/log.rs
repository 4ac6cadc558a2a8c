//! `tenure cluster init` and `tenure cluster recover`: changes of the log itself.

use std::path::PathBuf;

use clap::Args;
use humantime::format_duration;
use serde_json::json;
use tenure_config::{ConfigError, Settings};
use tenure_server::{ClusterConfig, ClusterMember};

use crate::commands::store_place::without_server;
use crate::settings::STORE;
use crate::{exit, output};

/// Begin the log of a cluster in etcd or PostgreSQL, before its first server starts
///
/// The first server does the same, if it may: this command is for operators with more rights than the
/// servers. An existing log is never changed.
#[derive(Debug, Args)]
pub(super) struct Init {
    #[command(flatten)]
    home: HomeArgs,
}

/// Let a cluster go on after its home was restored or promoted, or lost what it had acknowledged
///
/// Stop all servers of the cluster before. Epochs and revisions continue far above those of the log,
/// and above the wall clock. The log may lack terms that began after the restored state: start the
/// servers only after the longest lease has expired.
#[derive(Debug, Args)]
pub(super) struct Recover {
    #[command(flatten)]
    home: HomeArgs,
    /// Do it without asking, for scripts
    #[arg(long)]
    yes: bool,
}

#[derive(Debug, Args)]
struct HomeArgs {
    /// Configuration file (TOML) of a server of the cluster [default: the environment only]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl HomeArgs {
    fn cluster(&self) -> anyhow::Result<ClusterConfig> {
        let mut settings = Settings::load(STORE, self.config.as_deref())?;
        let cluster = without_server(&mut settings)?.cluster;
        let reason = "this command is for servers of a cluster: name etcd or PostgreSQL";
        Ok(cluster.ok_or_else(|| ConfigError::missing("serve.home", reason))?)
    }
}

impl Init {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let cluster = self.home.cluster()?;
        let store = ClusterMember::init(&cluster)?;
        if self.home.json {
            return output::json(&json!({ "cluster": cluster.name, "store": store }));
        }
        let line = format!("cluster {}: store {store}, no leases", cluster.name);
        Ok(output::line(line)?)
    }
}

impl Recover {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let cluster = self.home.cluster()?;
        if !self.yes {
            return Err(exit::bad_configuration(
                "this makes the log the truth as it is now, although terms may be missing in it. Stop all \
                 servers of the cluster, and then add --yes",
            ));
        }
        let recovered = ClusterMember::recover(&cluster)?;
        let contents = &recovered.contents;
        if self.home.json {
            return output::json(&json!({
                "cluster": cluster.name,
                "leases": contents.leases,
                "held": contents.held,
                "infinite": contents.infinite,
                "longest_ms": output::millis(contents.longest),
                "epochs_above": recovered.epochs_above,
                "revisions_above": recovered.revisions_above,
            }));
        }
        output::line(format_args!(
            "cluster {}: {} leases, {} held",
            cluster.name, contents.leases, contents.held
        ))?;
        output::line(format_args!(
            "epochs continue above {}, revisions above {}",
            recovered.epochs_above, recovered.revisions_above
        ))?;
        output::line(format_args!(
            "the log may lack the last terms: start the servers only after the longest lease in use has \
             expired since the last server stopped; the longest in the log is {}",
            format_duration(contents.longest)
        ))?;
        if contents.infinite > 0 {
            output::line(
                "the log has infinite leases: if others were granted after it, make sure yourself that their \
                 holders have stopped",
            )?;
        }
        Ok(())
    }
}
