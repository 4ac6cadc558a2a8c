//! A term lasts for as long as the store has said, unless somebody ends it: until then nobody else is granted.

use tenure_core::Instant;

use super::{Finding, Lease, Place, Sight};
use crate::history::Answer;

/// Something that shows a term to be over.
#[derive(Clone, Copy)]
struct Over {
    at: Instant,
    what: What,
    place: Place,
}

#[derive(Clone, Copy)]
enum What {
    /// Another term goes on, or has ended.
    Another(u64),
    /// This one has ended.
    Ended(u64),
    /// At this revision nobody held the lease.
    Free(u64),
}

pub(super) fn check(lease: &Lease<'_>) -> Option<Finding> {
    let mut overs = overs(lease);
    overs.sort_by_key(|over| over.at);
    lease
        .sights
        .iter()
        .find_map(|sight| early(lease, sight, &overs))
}

/// What shows, before the time is up, that the term of this sight is over.
fn early(lease: &Lease<'_>, sight: &Sight<'_>, overs: &[Over]) -> Option<Finding> {
    let view = sight.view;
    let (epoch, holder) = (view.epoch?, view.holder.as_deref()?);
    let latest = lease.certain_end(sight, sight.sent)?;
    let first = overs.partition_point(|over| over.at < sight.sent);
    let before_its_end = overs[first..].iter().take_while(|over| over.at < latest);
    for over in before_its_end.filter(|over| over.ends(epoch, view.revision)) {
        let is_early = lease
            .certain_end(sight, over.at)
            .is_some_and(|end| over.at < end);
        if is_early && !lease.may_be_ended(holder, epoch, sight.sent, over.at) {
            let what = match over.what {
                What::Another(another) => format!("epoch {another} had begun"),
                What::Ended(_) | What::Free(_) => "it was over".into(),
            };
            let left = latest.since(over.at).as_secs_f64() * 1e3;
            let what = format!(
                "{holder} held under epoch {epoch}, and nobody ended that; at least {left:.1} ms before its time was up {what}"
            );
            return Some((what, vec![sight.place, over.place]));
        }
    }
    None
}

impl Over {
    const fn ends(&self, epoch: u64, revision: u64) -> bool {
        match self.what {
            What::Another(another) => another > epoch,
            What::Ended(ended) => ended == epoch,
            What::Free(free) => free > revision,
        }
    }
}

fn overs(lease: &Lease<'_>) -> Vec<Over> {
    let mut overs = Vec::new();
    let mut add = |at, what, place| overs.push(Over { at, what, place });
    for sight in &lease.sights {
        let what = match sight.view.epoch {
            Some(epoch) => What::Another(epoch),
            None => What::Free(sight.view.revision),
        };
        add(sight.at, what, sight.place);
    }
    for told in &lease.histories {
        for term in told.terms {
            let ended = term.end.map(|_| What::Ended(term.epoch));
            add(told.at, What::Another(term.epoch), told.place);
            if let Some(ended) = ended {
                add(told.at, ended, told.place);
            }
        }
    }
    for (at, term, place) in &lease.ends {
        add(*at, What::Ended(term.epoch), *place);
    }
    for (number, op) in &lease.ops {
        if let Some((
            at,
            Answer::Verified {
                epoch: Some(epoch), ..
            },
        )) = op.answered()
        {
            add(at, What::Another(*epoch), Place::Op(*number));
        }
    }
    overs
}
