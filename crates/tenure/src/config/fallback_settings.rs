//! The settings of the table `[fallback]`.

use tenure_config::{ConfigError, Settings};
use tenure_core::lease::candidate::Timings;

use super::bully_settings::{FALLBACK, list_of, member};
use super::load::Purpose;
use super::{BullyError, Config, Fallback};

const K: &str = "fallback.k";

/// Refuses a fallback beside a strategy that has no store, or that elects among peers already.
pub(super) fn check_strategy(settings: &Settings) -> Result<(), ConfigError> {
    let strategy = settings.list("strategy");
    let reason = match strategy[..] {
        ["bully" | "both"] if settings.has_table("fallback") => {
            "the table [fallback] is set, too, and this strategy elects among the members of [bully]: \
             write strategy = \"lease\" for a store with a fallback, or leave [fallback] out"
        }
        ["kubernetes"] if settings.has_table("fallback") => {
            "the table [fallback] is set, too, and other programs that compete for the Lease object know \
             nothing of these members: write strategy = \"lease\", or leave [fallback] out"
        }
        ["static"] if settings.has_table("fallback") => {
            "the table [fallback] is set, too, and this strategy has no store: write strategy = \
             \"lease\", or leave [fallback] out"
        }
        _ => return Ok(()),
    };
    Err(settings.invalid("strategy", reason.into()))
}

/// Reads the settings of the fallback, if there are any, and checks that they fit the others.
pub(super) fn read(
    settings: &Settings,
    config: &mut Config,
    purpose: Purpose,
) -> Result<(), ConfigError> {
    if !settings.has_table("fallback") {
        return Ok(());
    }
    let refused = |key, reason: &str| Err(settings.invalid(key, reason.into()));
    if !config.lock_delay.is_zero() {
        return refused(
            "lock_delay",
            "must be 0s with [fallback]: members that elect a leader without the store do not wait for \
             the lock delay",
        );
    }
    let members = member(settings, FALLBACK, purpose)?;
    let k = settings.word(K, "must be a number, or text in quotes", str::parse)?;
    let mut fallback = Fallback::new(members).with_k(k.unwrap_or_default());
    fallback.require_store = settings.flag("fallback.require_store")?;
    fallback.accept_changes = settings.flag("fallback.accept_changes")?;
    if purpose == Purpose::Compete {
        check(settings, &fallback, &config.timings)?;
        config.priority = priority(settings, &fallback)?;
    }
    config.fallback = Some(fallback);
    Ok(())
}

fn check(settings: &Settings, fallback: &Fallback, term: &Timings) -> Result<(), ConfigError> {
    let checked = fallback.plan(term).map(drop);
    checked.map_err(|error| {
        let key = match error {
            BullyError::NotAMember(_) | BullyError::NoNode => "fallback.node",
            BullyError::Timings(_) => {
                settings.first_set(&["fallback.message_lifetime", "renew_interval"])
            }
            BullyError::Quorums(_) => K,
            _ => list_of(FALLBACK),
        };
        settings.invalid(key, error.to_string())
    })
}

/// Returns the member's priority in the list, which is also its priority in the store's queue.
fn priority(settings: &Settings, fallback: &Fallback) -> Result<u32, ConfigError> {
    let members = &fallback.members;
    let own = members
        .peers
        .iter()
        .find(|it| Some(it.node) == members.node);
    let own = own.map_or(super::Peer::DEFAULT_PRIORITY, |own| own.priority);
    match settings.number::<u32>("priority")? {
        Some(other) if other != own && settings.origin("priority").is_some() => Err(settings.invalid(
            "priority",
            format!(
                "this member has the priority {own} in {}, which is also its priority in the store's queue: \
                 leave this key out, or write the same number",
                list_of(FALLBACK)
            ),
        )),
        _ => Ok(own),
    }
}
