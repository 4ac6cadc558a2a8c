//! The consequences of the settings of an election among peers.

use std::fmt;

use reqwest::Url;
use tenure_core::bully::{
    Bounds, GroupGuarantee, GroupSettings, GroupTimings, Member, Membership, Quorums,
    RECOMMENDED_RELAY_MEMBERS,
};
use tenure_core::detector::Detection;
use tenure_core::lease::candidate::Timings;

use super::{Bully, BullyError, Fallback};
use crate::http::credentials::is_loopback;

/// The consequences of the settings of an election among peers: costs, times and warnings.
/// `tenure config check` prints the plan, and a member logs it when it starts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ElectionPlan {
    /// The members and their rules.
    pub settings: GroupSettings,
    /// The failure detector.
    pub detection: Detection,
    /// Costs and times.
    pub bounds: Bounds,
    /// Warnings about valid settings that are probably a mistake.
    pub warnings: Vec<String>,
}

impl Bully {
    /// Computes the plan of these settings, with the timings of a term.
    ///
    /// # Errors
    ///
    /// [`BullyError`] if the settings allow no election.
    pub fn plan(&self, term: &Timings) -> Result<ElectionPlan, BullyError> {
        self.plan_with(term, None)
    }

    /// Computes the plan of these settings, with these quorums if there is a store as a voter.
    fn plan_with(
        &self,
        term: &Timings,
        quorums: Option<Quorums>,
    ) -> Result<ElectionPlan, BullyError> {
        let members = Membership::new(self.peers.iter().map(|peer| Member {
            id: peer.node,
            priority: peer.priority,
        }))?;
        let timings = GroupTimings::new(*term, &self.timings)?;
        let node = self.node.ok_or(BullyError::NoNode)?;
        self.check_addresses()?;
        let rules = GroupSettings::new(node, members, timings)?
            .with_guarantee(self.guarantee())
            .with_preempt(self.preempt);
        let rules = match quorums {
            Some(quorums) => rules.with_quorums(quorums),
            None => rules,
        };
        let detection = Detection::new(&self.detection, timings.message_lifetime())?;
        let mut warnings = Vec::new();
        if quorums.is_some() {
            warnings.extend(warning_of_fallback(rules.members().len()));
        } else {
            warnings.extend(rules.warning());
        }
        if self.key.is_none() && self.peers.len() > 1 {
            let open = "no key: every process that reaches a member can vote, and be elected";
            warnings.push(open.into());
        }
        if self.relay && self.peers.len() > RECOMMENDED_RELAY_MEMBERS {
            warnings.push(format!(
                "relay with {} members: a search for a path may send a request over each link of the \
                 network, so use at most {RECOMMENDED_RELAY_MEMBERS}",
                self.peers.len()
            ));
        }
        let bare = self.peers.iter().filter_map(|peer| peer.url.as_ref());
        let bare: Vec<&str> = bare.filter(|url| is_bare(url)).map(Url::as_str).collect();
        if !bare.is_empty() {
            warnings.push(format!(
                "plain http beyond this machine ({}): messages are authenticated but not encrypted; use a \
                 network that you trust",
                bare.join(", ")
            ));
        }
        Ok(ElectionPlan {
            bounds: Bounds::of(&rules, &detection),
            settings: rules,
            detection,
            warnings,
        })
    }
}

impl Fallback {
    /// Computes the plan of these settings, with the timings of a term.
    ///
    /// # Errors
    ///
    /// [`BullyError`] if the settings allow no election.
    pub fn plan(&self, term: &Timings) -> Result<ElectionPlan, BullyError> {
        self.check()?;
        self.members.plan_with(term, Some(self.quorums()?))
    }
}

/// Returns a warning about a number of members that is probably a mistake.
fn warning_of_fallback(members: usize) -> Option<String> {
    match members {
        1 => Some("one member has nobody to fall back to: it leads with or without the store".into()),
        2 => Some(
            "with 2 members there is no new leader while the store and one of the two are away; add a \
             third member"
                .into(),
        ),
        _ => None,
    }
}

/// Returns whether an eavesdropper on the network can read requests to this URL.
pub(crate) fn is_bare(url: &Url) -> bool {
    url.scheme() == "http" && !is_loopback(url)
}

impl ElectionPlan {
    /// Returns the quorums of a group with a store as a voter.
    #[must_use]
    pub fn quorums(&self) -> Option<Quorums> {
        let quorums = *self.settings.quorums();
        quorums.with_store().map(|_| quorums)
    }

    /// Returns the facts of the plan, each with its name.
    #[must_use]
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let (members, timings) = (self.settings.members(), self.settings.timings());
        let quorum = self.settings.guarantee() == GroupGuarantee::Quorum;
        let best_first: Vec<_> = members.iter().map(|node| node.to_string()).collect();
        let fallback = self.quorums();
        let majority = if let Some(quorums) = fallback {
            let (with, without) = (quorums.with_store().unwrap_or(0), quorums.without_store());
            format!(
                "the store and {with} of {}, or {without} without the store",
                members.len()
            )
        } else if quorum {
            let (majority, away) = (members.majority(), members.tolerated_failures());
            format!("{majority} of {}; {away} may be away", members.len())
        } else {
            "not required; any number may be away".into()
        };
        // The bounds contain the times of an election.
        let term = timings.term();
        let schedule = format!(
            "lease {:?}, renewed every {:?}, given up {:?} and stopped {:?} after the last renewal; messages \
             live {:?}, hold-down {:?}",
            term.lease_duration(),
            term.renew_interval(),
            term.renew_deadline(),
            term.hard_stop(),
            timings.message_lifetime(),
            timings.hold_down(),
        );
        let mut facts = vec![
            ("members", format!("{}, best first", best_first.join(", "))),
            (
                if fallback.is_some() {
                    "quorums"
                } else {
                    "majority"
                },
                majority,
            ),
            ("guarantee", self.settings.guarantee().to_string()),
            ("timings", schedule),
            ("detection", self.detection.to_string()),
            ("bounds", self.bounds.to_string()),
        ];
        if let Some(quorums) = fallback {
            facts.push(("survives", quorums.survives(members.len())));
        }
        if quorum {
            let safety = format!(
                "clock drift of {:.1} % is tolerated between members; a member that restarts keeps its votes \
                 for {:?}",
                timings.term().tolerated_drift_percent(),
                timings.quarantine()
            );
            facts.push(("safety", safety));
        }
        facts
    }
}

/// Formats the plan as one line, for the log.
impl fmt::Display for ElectionPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = self.facts();
        let facts = facts.iter().map(|(name, fact)| format!("{name}: {fact}"));
        f.write_str(&facts.collect::<Vec<_>>().join("; "))
    }
}
