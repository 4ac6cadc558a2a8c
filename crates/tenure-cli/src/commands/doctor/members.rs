//! The members of a fallback, as `tenure doctor` checks them.

use serde::Serialize;
use tenure_config::Settings;

use super::row;
use crate::store;

/// One member of the fallback.
#[derive(Debug, Serialize)]
pub(super) struct MemberReport {
    node: u32,
    url: String,
    answers: bool,
    /// The id of the store that the member uses, if it knows one.
    store: Option<String>,
    /// A short form of the settings that must be the same for all members.
    settings: Option<String>,
    error: Option<String>,
}

/// Asks all members of the fallback, if the settings have one.
pub(super) async fn examine(settings: &Settings) -> anyhow::Result<Vec<MemberReport>> {
    if !settings.has_table("fallback") {
        return Ok(Vec::new());
    }
    let client = store::peers(settings)?;
    let reports = client.ask_all().await.into_iter().map(|asked| {
        let (view, error) = match asked.view {
            Ok(view) => (Some(view.status), None),
            Err(error) => (None, Some(error.to_string())),
        };
        MemberReport {
            node: asked.peer.node.0,
            url: asked.peer.url().unwrap_or_default().into(),
            answers: view.is_some(),
            store: view.as_ref().and_then(|status| status.store.clone()),
            settings: view.and_then(|status| status.settings),
            error,
        }
    });
    Ok(reports.collect())
}

/// Returns what is wrong with these members, which should use one of these stores.
pub(super) fn findings(members: &[MemberReport], stores: &[&str]) -> Vec<String> {
    let mut findings = Vec::new();
    for member in members {
        let name = format!("member {} ({})", member.node, member.url);
        if let Some(error) = &member.error {
            findings.push(format!("{name}: {error}"));
        }
        let id = member.store.as_deref();
        if let Some(id) = id.filter(|id| !stores.is_empty() && !stores.contains(id)) {
            findings.push(format!(
                "{name} uses the store {id}, and the configured address is the store {}: two leaders would \
                 be possible, so the members refuse each other",
                stores.join(", ")
            ));
        }
    }
    let settings = |member: &MemberReport| member.settings.clone();
    let first = members.iter().find_map(|it| Some((it.node, settings(it)?)));
    for member in members {
        if let (Some((node, expected)), Some(other)) = (&first, settings(member))
            && other != *expected
        {
            findings.push(format!(
                "members {node} and {} have other settings ({expected} and {other}): give both the same \
                 members, k and timings; tenure config check prints them",
                member.node
            ));
        }
    }
    findings
}

impl MemberReport {
    pub(super) fn print(&self) -> anyhow::Result<()> {
        let state = if self.answers { "answers" } else { "no answer" };
        let store = self.store.as_deref().unwrap_or("not known yet");
        row(
            "member",
            format_args!("{} at {}: {state}, store {store}", self.node, self.url),
        )
    }
}
