//! Clients that only read: leases, lists, histories and epochs.

use super::{QUIET, ROUGH, SPARSE, Session};
use crate::history::{Answer, Ask};

pub(super) async fn run(mut session: Session) {
    let leases: Vec<&str> = QUIET.into_iter().chain(ROUGH).chain(SPARSE).collect();
    // The last lease that was read, its revision and epoch.
    let mut seen = ("", 0, 0);
    while !session.state.is_over() {
        session.pause(2, 70).await;
        let lease = session.dice.one_of(&leases);
        let patience = session.millis(50, 3_000);
        let (lease, ask) = match session.dice.below(100) {
            0..35 => (lease, Ask::View),
            35..55 if seen.1 > 0 => {
                let wait_ms = session.dice.below(1_500);
                let after = seen.1;
                (seen.0, Ask::Poll { after, wait_ms })
            }
            55..65 if seen.2 > 0 => (seen.0, Ask::Verify { epoch: seen.2 }),
            65..75 => ("", Ask::List),
            _ => (lease, Ask::Terms),
        };
        if let Some(Answer::View(view)) = session.ask(lease, None, ask, patience).await {
            seen = (lease, view.revision, view.epoch.unwrap_or(seen.2));
        }
    }
}
