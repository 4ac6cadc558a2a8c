//! The servers of a cluster, as `tenure doctor` checks them.

use std::collections::BTreeSet;
use std::time::Duration;

use tenure::Timings;
use tenure::store::{ClusterView, ServerRole};

use super::row;
use crate::output::escape;
use crate::servers::{self, Verdict, verdict};

/// The share of the home's space from which on it should be made larger, in per cent.
const FULL_PERCENT: u64 = 80;

/// Returns what is wrong with the servers that told these states, for candidates with these
/// timings. That the addresses are of several stores is found elsewhere.
pub(super) fn findings(views: &[&ClusterView], timings: &Timings) -> Vec<String> {
    let mut findings = Vec::new();
    if views.is_empty() {
        return findings;
    }
    match verdict(views.iter().copied()) {
        Verdict::Active(_) | Verdict::SeveralStores(_) => {}
        Verdict::NoneActive => findings.push("no server of the cluster is active".into()),
        Verdict::SeveralActive(names) => findings.push(format!(
            "{} are active at the same time: see tenure cluster status",
            names.join(" and ")
        )),
    }
    for view in views {
        let name = escape(&view.server);
        // A server that is active, or has a copy of the leases, goes on after a single failure.
        let goes_on = match view.role {
            ServerRole::Active => true,
            ServerRole::Following => view.behind.is_some(),
            _ => false,
        };
        if let Some(reason) = view.reason.as_ref().filter(|_| !goes_on) {
            let role = view.role.as_str();
            findings.push(format!("{name} is {role}: {}", escape(reason)));
        }
        if let (Some(bytes), Some(quota)) = (view.home_bytes, view.home_quota_bytes)
            && bytes.saturating_mul(100) >= quota.saturating_mul(FULL_PERCENT)
        {
            findings.push(format!(
                "{name}: {} has used {} of {}: compact and defragment it, or raise its quota; when it is \
                 full, no server can be active",
                view.home,
                mebibytes(bytes),
                mebibytes(quota)
            ));
        }
    }
    findings.extend(views.iter().filter_map(|view| slow_home(view)));
    findings.extend(home_warnings(views));
    let durations: BTreeSet<u64> = views.iter().map(|view| view.ownership_ms).collect();
    if durations.len() > 1 {
        let durations: Vec<String> = durations.iter().map(|ms| format!("{ms} ms")).collect();
        findings.push(format!(
            "the servers have different ownership durations ({}): give all of them the same",
            durations.join(" and ")
        ));
    }
    let longest = durations.last().map(|&ms| Duration::from_millis(ms));
    findings.extend(longest.and_then(|it| timings.take_over_warning(it)));
    findings.extend(servers::namesakes(views.iter().copied()));
    findings
}

/// Returns what the operator of the home should change, once each: several servers see the same.
fn home_warnings(views: &[&ClusterView]) -> BTreeSet<String> {
    let warnings = views.iter().flat_map(|view| &view.home_warnings);
    warnings.map(|warning| escape(warning)).collect()
}

/// Returns the finding if the home needs more than half of the time that an append may take.
fn slow_home(view: &ClusterView) -> Option<String> {
    let latency = Duration::from_micros(view.home_latency_us?);
    // After this time a server gives an attempt up and asks again.
    let attempt = Duration::from_millis(view.ownership_ms) / 6;
    (latency > attempt / 2).then(|| {
        format!(
            "{}: {} answers in {latency:.1?} on average, and an append that takes {attempt:.1?} is given \
             up: give it faster disks or a nearer place, or choose a longer ownership",
            escape(&view.server),
            view.home
        )
    })
}

/// Prints the state of a server.
pub(super) fn print(view: &ClusterView) -> anyhow::Result<()> {
    let role = view.role.as_str();
    row(
        "  cluster",
        format_args!(
            "{}: {} is {role}, generation {}, {}",
            escape(&view.name),
            escape(&view.server),
            view.generation,
            match view.behind {
                Some(behind) => format!("{behind} behind"),
                None => "no copy of the leases".into(),
            }
        ),
    )?;
    let mut facts = vec![escape(&view.home_and_version())];
    if let Some(micros) = view.home_latency_us {
        facts.push(format!("answers in {:.1?}", Duration::from_micros(micros)));
    }
    if let Some(bytes) = view.home_bytes {
        let of = |quota| format!(" of {}", mebibytes(quota));
        let quota = view.home_quota_bytes.map(of).unwrap_or_default();
        facts.push(format!("{}{quota}", mebibytes(bytes)));
    }
    if let Some(identity) = &view.home_identity {
        facts.push(format!("identity {}", escape(identity)));
    }
    row("  home", facts.join(", "))
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str, role: ServerRole) -> ClusterView {
        let mut view = ClusterView::new("default", name, role, "etcd");
        view.ownership_ms = 3000;
        view
    }

    fn found(servers: &[ClusterView]) -> Vec<String> {
        findings(&servers.iter().collect::<Vec<_>>(), &Timings::default())
    }

    #[test]
    fn a_cluster_with_an_active_server_and_standbys_has_no_findings() {
        let servers = [
            server("a", ServerRole::Active),
            server("b", ServerRole::Following),
        ];
        let [mut quick, standby] = servers;
        quick.home_latency_us = Some(250_000);
        let servers = [quick, standby];
        assert_eq!(found(&servers), <[String; 0]>::default());
        assert!(found(&[]).is_empty());
    }

    #[test]
    fn each_fault_of_a_cluster_is_found() {
        let active = || server("a", ServerRole::Active);
        let mut refusing = server("b", ServerRole::Refusing);
        refusing.reason = Some("the home lost what it acknowledged".into());
        let mut empty = server("b", ServerRole::Following);
        empty.reason = Some("this server can't copy the log".into());
        let mut full = active();
        (full.home_bytes, full.home_quota_bytes) = (Some(80 << 20), Some(100 << 20));
        let mut other = server("b", ServerRole::Following);
        other.ownership_ms = 3500;
        let mut slow = active();
        slow.ownership_ms = 5000;
        let mut old = active();
        old.home_warnings = vec!["etcd 3.4.23 has known errors".into()];
        let mut standby = server("b", ServerRole::Following);
        standby.home_warnings = old.home_warnings.clone();
        let [mut one, mut two] =
            [ServerRole::Active, ServerRole::Following].map(|role| server("a", role));
        one.start = Some("1".into());
        two.start = Some("2".into());
        let mut slow_home = active();
        slow_home.home_latency_us = Some(250_001);
        for (servers, parts) in [
            (
                vec![server("a", ServerRole::Following)],
                ["no server", "is active"],
            ),
            (
                vec![active(), server("b", ServerRole::Active)],
                ["a and b", "at the same time"],
            ),
            (
                vec![active(), refusing],
                ["b is refusing", "lost what it acknowledged"],
            ),
            (
                vec![active(), empty],
                ["b is following", "can't copy the log"],
            ),
            (
                vec![one.clone(), one.clone(), two],
                ["two servers", "have the name a"],
            ),
            (vec![full], ["80 MiB of 100 MiB", "defragment"]),
            (vec![active(), other], ["3000 ms and 3500 ms", "the same"]),
            (
                vec![slow],
                ["another server of the store takes over", "at least 19s"],
            ),
            (
                vec![slow_home],
                ["a: etcd answers in 250.0ms", "500.0ms is given up"],
            ),
            (vec![old, standby], ["etcd 3.4.23", "known errors"]),
        ] {
            let found = found(&servers);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(
                parts.iter().all(|part| found[0].contains(part)),
                "{found:?}"
            );
        }
    }
}
