//! Identities of servers.

use tenure_core::ownership::EngineId;
use tenure_register::postgres::Failover;

/// Returns the identity as the head has it: the system identifier, and the timeline if a promotion
/// makes another engine. `text` is the identity of a session.
pub(super) fn engine_id(text: &str) -> Option<EngineId> {
    let (system, timeline) = match text.split_once('/') {
        Some((system, timeline)) => (system, u32::from_str_radix(timeline, 16).ok()?),
        None => (text, 0),
    };
    let system = system.parse::<i64>().ok()?.cast_unsigned();
    Some(EngineId(u128::from(system) << 64 | u128::from(timeline)))
}

/// Returns an identity in readable form.
pub(super) fn identity_text(engine: EngineId) -> String {
    let (system, timeline) = parts(engine);
    match timeline {
        // The operator says that a promotion makes no other engine.
        0 => format!("system identifier {system}"),
        timeline => format!("system identifier {system}, timeline {timeline}"),
    }
}

/// Returns the system identifier and the timeline of an identity.
const fn parts(EngineId(id): EngineId) -> (u64, u32) {
    ((id >> 64) as u64, id as u32)
}

/// Whether two identities differ in the timeline at most.
pub(super) const fn is_same_system(one: EngineId, other: EngineId) -> bool {
    parts(one).0 == parts(other).0
}

/// Returns why this server is another engine than the one that was there before.
pub(super) fn other_engine(
    name: &str,
    failover: Failover,
    before: EngineId,
    now: EngineId,
) -> String {
    let ((old_system, old_timeline), (system, timeline)) = (parts(before), parts(now));
    match (failover, old_timeline) {
        _ if system != old_system => format!(
            "{name} is another PostgreSQL (system identifier {system}, was {old_system}): a wrong \
             address, or a restored copy. Stop all servers; after a restore: tenure cluster recover"
        ),
        // The log takes any timeline, so it has shown heads with two of them.
        (Failover::Lossless, _) => format!(
            "the log in {name} was recovered or begun anew while this server ran, or a former \
             primary answers: restart this server"
        ),
        (Failover::None, 0) => {
            "the log was written with postgres.failover = \"lossless\": keep that setting, or stop \
             all servers, then: tenure cluster recover"
                .into()
        }
        (Failover::None, _) => format!(
            "{name} was promoted or restored (timeline {timeline}, was {old_timeline}). If its \
             fail-over loses nothing: postgres.failover = \"lossless\"; else stop all servers, \
             then: tenure cluster recover"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The identity of a server, as its sessions show it.
    fn id(timeline: u32, failover: Failover) -> EngineId {
        let system = (u64::MAX - 5).cast_signed();
        let text = match failover {
            Failover::None => format!("{system}/{timeline:08X}"),
            Failover::Lossless => system.to_string(),
        };
        engine_id(&text).unwrap()
    }

    #[test]
    fn a_promotion_makes_another_engine_unless_it_is_declared_lossless() {
        assert_ne!(id(1, Failover::None), id(2, Failover::None));
        assert_eq!(id(1, Failover::Lossless), id(2, Failover::Lossless));
        assert!(is_same_system(
            id(1, Failover::None),
            id(2, Failover::Lossless)
        ));
    }

    #[test]
    fn a_refusal_of_another_engine_says_what_to_do() {
        let (strict, lossless) = (Failover::None, Failover::Lossless);
        let other = engine_id("6/00000001").unwrap();
        for (failover, before, now, expected) in [
            (strict, id(1, strict), id(2, strict), "(timeline 2, was 1)"),
            (strict, id(1, lossless), id(1, strict), "keep that setting"),
            (lossless, id(1, lossless), id(2, strict), "restart this"),
            (lossless, id(1, strict), id(2, lossless), "restart this"),
            (strict, id(1, strict), other, "is another PostgreSQL"),
            (lossless, id(1, lossless), other, "is another PostgreSQL"),
        ] {
            let text = other_engine("P", failover, before, now);
            assert!(text.contains(expected), "{text}");
            assert!(!text.contains("timeline 0"), "{text}");
        }
    }
}
