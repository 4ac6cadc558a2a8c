//! `tenure peers`: the status of the members of an election among peers.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use comfy_table::Table;
use tenure::peers::{CarriedBy, Counters, ElectionId, GroupView, PeerView};
use tenure_config::{ConfigError, Settings};

use crate::exit::{self, UNREACHABLE};
use crate::output::{self, or_dash};
use crate::runtime;
use crate::settings::CANDIDATE;
use crate::store;

/// Show the status of each member of an election among peers
///
/// Asks all members at once; no key is needed. The row of a member that does not answer has the
/// reason. Exits with 0 if all members that answer agree on a leader, 1 if not, 69 if no member
/// answers.
#[derive(Debug, Args)]
pub(crate) struct Peers {
    /// Election of the members
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    election: Option<String>,
    /// All members
    #[arg(long, value_name = "NUMBER[@PRIORITY]=URL", value_delimiter = ',')]
    peers: Vec<String>,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON with the field names of the members' status
    #[arg(long)]
    json: bool,
}

impl Peers {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let settings = self.settings()?;
        let client = store::peers(&settings)?;
        let asked = runtime::current_thread()?.block_on(client.ask_all());
        let group = GroupView::of(&asked);
        if self.json {
            output::json(&group)?;
        } else {
            output::print_table(&table(&group))?;
        }
        if group.leader.is_some() {
            return Ok(());
        }
        if group.members.iter().all(|member| member.view.is_none()) {
            return Err(exit::error(UNREACHABLE, anyhow!("no member answers")));
        }
        Err(anyhow!("the members that answer do not agree on a leader"))
    }

    /// The settings of a member: the file, overridden by the environment, overridden by flags.
    fn settings(&self) -> Result<Settings, ConfigError> {
        let mut settings = Settings::load(CANDIDATE, self.config.as_deref())?;
        settings.set_flag("election", &self.election);
        if settings.has_table("fallback") {
            settings.set_flag("fallback.members", &self.peers);
        } else {
            settings.set_flag("bully.peers", &self.peers);
        }
        Ok(settings)
    }
}

fn table(group: &GroupView) -> Table {
    let header = [
        "NODE",
        "ADDRESS",
        "ROLE",
        "LEADER",
        "EPOCH",
        "ELECTION",
        "QUORUM",
        "SUSPECTS",
        "START",
        "STRATEGY",
        "CARRIED BY",
        "REQUESTS",
        "NOTE",
    ];
    let mut table = output::table(&header);
    for member in &group.members {
        let cells = match &member.view {
            Some(view) => cells(view),
            None => {
                let mut cells = vec!["-".to_owned(); header.len() - 3];
                cells.push(or_dash(member.error.as_ref()));
                cells
            }
        };
        let member = [member.node.to_string(), or_dash(member.url.as_ref())];
        table.add_row(member.into_iter().chain(cells));
    }
    table
}

/// All cells but the node id and the address.
fn cells(view: &PeerView) -> Vec<String> {
    let status = &view.status;
    let Counters {
        answered, failed, ..
    } = view.counters;
    let quorum = status
        .quorum
        .map(|reached| if reached { "yes" } else { "no" });
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
        or_dash(status.carried_by.as_ref().map(carrier)),
        format!("{answered} answered, {failed} failed"),
        or_dash(note(view)),
    ]
}

/// The paths that are not direct, and the refused requests.
fn note(view: &PeerView) -> Option<String> {
    let list = |items: Vec<String>| items.join(", ");
    let relayed = view.paths.iter().filter(|(_, relays)| !relays.is_empty());
    let relayed = relayed.map(|(to, relays)| {
        let relays = relays.iter().map(ToString::to_string).collect::<Vec<_>>();
        format!("{to} through {}", relays.join(" and "))
    });
    let refused = view.counters.refused.iter();
    let refused = refused.map(|(code, count)| format!("{code} {count}"));
    let notes = [
        ("reaches", list(relayed.collect())),
        ("refused:", list(refused.collect())),
    ];
    let notes = notes.into_iter().filter(|(_, text)| !text.is_empty());
    let notes: Vec<String> = notes.map(|(name, text)| format!("{name} {text}")).collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// The voters of a leader's term, the number of members that it can still lose, and since when the
/// store has been silent.
fn carrier(carried_by: &CarriedBy) -> String {
    let CarriedBy {
        kind,
        further_losses,
        store_silent_since,
        ..
    } = carried_by;
    let silent = store_silent_since.as_ref();
    let silent = silent.map_or_else(String::new, |since| format!(", store silent since {since}"));
    format!("{kind}, {further_losses} more may fail{silent}")
}

/// The organiser, its incarnation, and the number of the election.
fn election(id: ElectionId) -> String {
    format!("{}.{}.{}", id.organiser, id.incarnation, id.number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_note_has_the_members_that_are_reached_through_others() {
        let view = json!({
            "node": 1, "incarnation": 1, "strategy": "bully", "role": "leading", "leader": 1,
            "epoch": 7, "election": null, "suspects": [], "quorum": true,
            "counters": {
                "sent": 1, "answered": 1, "refused_by_peers": 0, "failed": 0,
                "answers_unauthenticated": 0, "expired": 0, "replaced": 0, "copies": 0,
                "relayed": 0, "taken": 1, "refused": {},
            },
        });
        let noted = |paths, refused| {
            let mut view = view.clone();
            view["paths"] = paths;
            view["counters"]["refused"] = refused;
            note(&serde_json::from_value(view).unwrap())
        };
        let paths = json!({"2": [], "3": [2], "4": [5, 6]});
        let reached = "reaches 3 through 2, 4 through 5 and 6";
        assert_eq!(noted(paths.clone(), json!({})).as_deref(), Some(reached));
        let both = format!("{reached}; refused: late 2");
        assert_eq!(noted(paths, json!({"late": 2})), Some(both));
        assert_eq!(noted(json!({"2": []}), json!({})), None);
    }
}
