//! `tenure peers`: what the members of an election among peers say.

use std::process::ExitCode;

use comfy_table::Table;
use serde_json::{Value, json};
use tenure::__cli::Settings;
use tenure::config::{ConfigError, Origin};
use tenure::peers::{Asked, ElectionId, PeerView, PeersClient, agreement};

use crate::cli::Peers;
use crate::exit::{Failure, UNREACHABLE};
use crate::output;

pub(crate) fn peers(arguments: &Peers) -> Result<ExitCode, Failure> {
    let settings = settings(arguments)?;
    let (peers, cluster) = (
        tenure::__cli::peers_of(&settings)?,
        tenure::__cli::cluster_of(&settings)?,
    );
    let client = PeersClient::new(cluster, peers).map_err(anyhow::Error::new)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let asked = runtime.block_on(client.ask_all());
    let leader = agreement(&asked);
    if arguments.json {
        output::json(&json!({
            "leader": leader.map(|(leader, _)| leader),
            "epoch": leader.map(|(_, epoch)| epoch),
            "members": asked.iter().map(object).collect::<Vec<_>>(),
        }))?;
    } else {
        output::print_table(&table(&asked))?;
    }
    if leader.is_some() {
        return Ok(ExitCode::SUCCESS);
    }
    let silent = asked.iter().all(|asked| asked.view.is_err());
    let (code, why) = if silent {
        (UNREACHABLE, "no member answers")
    } else {
        (1, "there is no leader that all who answer agree on")
    };
    Err(Failure::new(code, anyhow::anyhow!(why)))
}

/// The settings of a member: the file, overridden by the environment, overridden by flags.
fn settings(arguments: &Peers) -> Result<Settings, ConfigError> {
    let mut settings = tenure::__cli::settings();
    if let Some(path) = &arguments.config {
        tenure::__cli::read_file(&mut settings, path)?;
    }
    tenure::__cli::read_environment(&mut settings)?;
    if let Some(election) = &arguments.election {
        let origin = Origin::Flag("--election".into());
        settings.set("election", [election], origin);
    }
    if !arguments.peers.is_empty() {
        let origin = Origin::Flag("--peers".into());
        settings.set("bully.peers", &arguments.peers, origin);
    }
    Ok(settings)
}

fn object(asked: &Asked) -> Value {
    let peer = &asked.peer;
    let (view, error) = match &asked.view {
        Ok(view) => (json!(view), Value::Null),
        Err(error) => (Value::Null, error.to_string().into()),
    };
    json!({
        "node": peer.node(), "priority": peer.priority(), "url": peer.url(),
        "view": view, "error": error,
    })
}

fn table(asked: &[Asked]) -> Table {
    let header = [
        "NODE", "ROLE", "LEADER", "EPOCH", "ELECTION", "QUORUM", "SUSPECTS", "START", "STRATEGY",
        "NOTE",
    ];
    let mut table = output::table(&header);
    for Asked { peer, view, .. } in asked {
        let row = match view {
            Ok(view) => row(view),
            Err(error) => {
                let mut row = vec!["-".to_owned(); header.len() - 2];
                row.push(format!("{error} ({})", peer.url()));
                row
            }
        };
        table.add_row([peer.node().to_string()].into_iter().chain(row));
    }
    table
}

/// All cells but the first.
fn row(view: &PeerView) -> Vec<String> {
    let status = &view.status;
    let quorum = status
        .quorum
        .map(|reached| if reached { "yes" } else { "no" });
    let refused = view.counters.refused.iter();
    let refused: Vec<_> = refused
        .map(|(code, count)| format!("{code} {count}"))
        .collect();
    let suspects: Vec<_> = status.suspects.iter().map(ToString::to_string).collect();
    vec![
        status.role.clone(),
        or_dash(status.leader),
        or_dash(status.epoch),
        or_dash(status.election.map(election)),
        or_dash(quorum),
        or_dash((!suspects.is_empty()).then(|| suspects.join(", "))),
        status.incarnation.to_string(),
        status.strategy.clone(),
        or_dash((!refused.is_empty()).then(|| format!("refused: {}", refused.join(", ")))),
    ]
}

/// Organiser, its start, and the number of the election.
fn election(id: ElectionId) -> String {
    format!("{}.{}.{}", id.organiser, id.incarnation, id.number)
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}
