//! Clients that end other clients' terms, and delete leases.

use super::{ROUGH, SPARSE, Session};
use crate::history::Ask;

pub(super) async fn run(mut session: Session) {
    while !session.state.is_over() {
        session.pause(20, 250).await;
        let (lease, ask) = match session.dice.below(10) {
            0 | 1 => {
                let lease = session.dice.one_of(&ROUGH);
                let period_ms = session.dice.one_of(&[None, Some(0), Some(100), Some(600)]);
                (lease, Ask::Break { period_ms })
            }
            2 => {
                let lease = session.dice.one_of(&ROUGH);
                let to = session.state.recent_holder(lease, &mut session.dice);
                let hand_over = Ask::HandOver {
                    id: None,
                    to: to.unwrap_or_else(|| "nobody".into()),
                    within_ms: 100 + session.dice.below(900),
                    force: session.happens(50),
                };
                (lease, hand_over)
            }
            _ => (session.dice.one_of(&SPARSE), Ask::Delete),
        };
        let patience = session.millis(100, 3_000);
        session.ask(lease, None, ask, patience).await;
    }
}
