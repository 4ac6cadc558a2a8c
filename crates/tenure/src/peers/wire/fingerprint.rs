//! The settings that must be the same for all members.

use aws_lc_rs::digest::{SHA256, digest};
use tenure_core::ElectionName;
use tenure_core::bully::{GroupGuarantee, GroupSettings};

use super::mac::hex;

/// A short form of the settings that must be the same for all members. Every message contains it,
/// because members with different majorities, or with different durations of their promises, must
/// not take part in one election.
///
/// It has the election with its namespace, whatever the name of the group is: with one key, members
/// of two elections must not vote for each other.
///
/// The failure detection is not part of it. With a quorum, no rule of safety depends on detectors.
/// Without one, each member checks that its own detection is not faster than the message lifetime
/// ([`Detection::new`](tenure_core::detector::Detection::new)), and the message lifetime is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// The short form, for messages.
    pub(in crate::peers) hash: String,
    /// The long form, for people.
    pub(crate) text: String,
}

impl Fingerprint {
    /// Returns the beginning of the short form, for people and for the status.
    pub(crate) fn short(&self) -> &str {
        self.hash.get(..16).unwrap_or(&self.hash)
    }

    /// Computes the fingerprint of the members of this election with these settings.
    pub(crate) fn of(election: &ElectionName, settings: &GroupSettings) -> Self {
        let guarantee = match settings.guarantee() {
            GroupGuarantee::Quorum => "a quorum".to_owned(),
            GroupGuarantee::BestEffort => "no quorum".to_owned(),
        };
        let quorums = settings.quorums();
        let guarantee = match quorums.with_store() {
            Some(k) => format!(
                "k = {k} (the store and {k} members, or {} without it)",
                quorums.without_store()
            ),
            None => guarantee,
        };
        let members: Vec<String> = settings.members().iter().map(|id| id.to_string()).collect();
        let timings = settings.timings();
        // Priorities only determine the order.
        let text = format!(
            "election {election}, members {} (best first), {guarantee}, lease {:?}, messages live {:?}",
            members.join(" "),
            timings.term().lease_duration(),
            timings.message_lifetime(),
        );
        let hash = hex(digest(&SHA256, text.as_bytes()).as_ref());
        Self { hash, text }
    }
}
