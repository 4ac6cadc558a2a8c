//! Leases as text for people.

use std::time::{Duration, SystemTime};

use chrono::{DateTime, Local, Utc};
use clap::Args;
use humantime::format_duration;
use serde::Serialize;
use serde_json::{Value, json};
use tenure::ElectionName;
use tenure::backend::AwaitedTerm;
use tenure::store::{DurationMs, LeaseView, State, WaiterList, WaiterView, WithoutStoreView};

use crate::output::{self, escape, or_dash};
use crate::settings::ClientArgs;

/// The arguments of commands about one lease.
#[derive(Debug, Args)]
pub(crate) struct LeaseArgs {
    /// Lease
    #[arg(value_name = "[NAMESPACE/]NAME")]
    pub(crate) name: ElectionName,
    #[command(flatten)]
    pub(crate) store: ClientArgs,
    /// Print JSON with the field names of the HTTP API
    #[arg(long)]
    pub(crate) json: bool,
}

/// A lease with its waiters, or with the term that they wait for although it has no valid holder.
#[derive(Serialize)]
struct WithWaiters<'a> {
    #[serde(flatten)]
    view: &'a LeaseView,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<&'a [WaiterView]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    awaited: Option<Value>,
}

/// Prints a lease.
pub(crate) fn print(view: &LeaseView, json: bool) -> anyhow::Result<()> {
    print_with_waiters(view, None, None, json)
}

/// Prints a lease, the candidates that wait for it, and the term that they wait for.
pub(crate) fn print_with_waiters(
    view: &LeaseView,
    waiters: Option<&WaiterList>,
    awaited: Option<&AwaitedTerm>,
    json: bool,
) -> anyhow::Result<()> {
    let waiting = waiters.map(|list| list.waiters.as_slice());
    if json {
        let awaited = awaited.map(awaited_json);
        return output::json(&WithWaiters {
            view,
            waiting,
            awaited,
        });
    }
    let mut rows = vec![
        ("lease", format!("{}/{}", view.namespace, view.lease)),
        ("state", state(view.state).into()),
    ];
    if let Some(holder) = &view.holder {
        // Another program that holds a Lease object of Kubernetes has no epoch.
        rows.push(("holder", escape(holder)));
        rows.extend(view.epoch.map(|epoch| ("epoch", epoch.to_string())));
        // The lease of a blob has none of these, no waiters and no revision.
        if let Some(owner) = &view.owner {
            rows.push(("owner", escape(owner)));
        }
        let times = [
            ("since", since(view)),
            ("duration", duration(view.duration_ms)),
            ("left", remaining(view)),
        ];
        rows.extend(times.into_iter().filter(|(_, time)| time != "-"));
        if let Some(periods) = &view.without_store {
            rows.push(("no store", without_store(periods)));
        }
    }
    if let Some(awaited) = awaited {
        rows.push(("awaited", awaited_text(awaited)));
    }
    if let Some(left) = view.lock_delay_remaining_ms {
        rows.push(("barred", format!("by a lock delay {}", until(left))));
    }
    if let (Some(to), Some(left)) = (&view.reserved_for, view.reserved_remaining_ms) {
        rows.push(("reserved", format!("for {} {}", escape(to), until(left))));
    }
    if view.revision > 0 {
        rows.push(("waiters", view.waiters.to_string()));
        for WaiterView {
            holder, waiting_ms, ..
        } in waiting.unwrap_or_default()
        {
            let waited = format_duration(Duration::from_secs(waiting_ms / 1_000));
            rows.push(("waiting", format!("{} for {waited}", escape(holder))));
        }
        rows.push(("revision", view.revision.to_string()));
    }
    for (key, value) in view.metadata.iter().flatten() {
        rows.push(("metadata", format!("{} = {}", escape(key), escape(value))));
    }
    for (key, value) in rows {
        output::line(format_args!("{key:<10}{value}"))?;
    }
    Ok(())
}

/// The term, or the holder, that a candidate waits for that starts now.
pub(crate) fn awaited_text(awaited: &AwaitedTerm) -> String {
    let left = output::millis(awaited.remaining).div_ceil(1_000);
    let left = format_duration(Duration::from_secs(left));
    match (&awaited.holder, &awaited.leader) {
        (Some(holder), _) => format!(
            "{}, which may hold the lease for at most {left} without a change",
            escape(holder)
        ),
        (None, Some((leader, epoch))) => format!(
            "the term of {leader} under epoch {epoch}, whose holder another program has changed; for at \
             most {left}"
        ),
        (None, None) => {
            format!("a term that may run although the object does not show it; for at most {left}")
        }
    }
}

/// The same as JSON.
pub(crate) fn awaited_json(awaited: &AwaitedTerm) -> Value {
    let leader = awaited.leader.as_ref();
    let holder = || leader.map(|(holder, _)| holder.to_string());
    json!({
        "holder": awaited.holder.clone().or_else(holder),
        "epoch": leader.map(|(_, epoch)| epoch.get()),
        "remaining_ms": output::millis(awaited.remaining),
    })
}

pub(crate) const fn state(state: State) -> &'static str {
    match state {
        State::Available => "available",
        State::Leased => "leased",
        State::Breaking => "breaking",
        State::Broken => "broken",
        State::Expired => "expired",
    }
}

/// The end of a time of which so much is left, by the clock of this machine.
fn until(left_ms: u64) -> String {
    let left = Duration::from_millis(left_ms);
    let end = DateTime::<Local>::from(SystemTime::now() + left);
    let left = format_duration(Duration::from_secs(left_ms.div_ceil(1_000)));
    format!("until {} ({left} left)", end.format("%Y-%m-%d %H:%M:%S"))
}

/// A duration that is known and has an end.
pub(crate) fn finite(duration: Option<DurationMs>) -> Option<Duration> {
    let Some(DurationMs::Fixed(number)) = duration else {
        return None;
    };
    let ms = number.within("duration_ms", 0, u64::MAX).ok()?;
    Some(Duration::from_millis(ms))
}

fn duration(duration: Option<DurationMs>) -> String {
    match duration {
        Some(DurationMs::Infinite) => "infinite".into(),
        duration => or_dash(finite(duration).map(format_duration)),
    }
}

/// The time until the lease expires.
pub(crate) fn remaining(view: &LeaseView) -> String {
    match (view.remaining_ms, view.duration_ms) {
        (None, Some(DurationMs::Infinite)) => "infinite".into(),
        (ms, _) => or_dash(ms.map(|ms| format!("{:.1}s", Duration::from_millis(ms).as_secs_f64()))),
    }
}

/// The start of the term in local time, and its age by the wall clock of this machine.
pub(crate) fn since(view: &LeaseView) -> String {
    let Some(text) = &view.granted_at else {
        return "-".into();
    };
    let Ok(granted) = DateTime::parse_from_rfc3339(text) else {
        return text.clone();
    };
    let ago = (DateTime::<Utc>::from(SystemTime::now()) - granted.to_utc())
        .to_std()
        .unwrap_or_default();
    let ago = format_duration(Duration::from_secs(ago.as_secs()));
    format!("{} ({ago} ago)", local_time(text))
}

/// The periods in which a term was led without the store.
pub(crate) fn without_store(view: &WithoutStoreView) -> String {
    let time = |text: &Option<String>| or_dash(text.as_deref().map(local_time));
    let total = format_duration(Duration::from_secs(view.total_ms.div_ceil(1_000)));
    let (from, to) = (time(&view.from), time(&view.to));
    match view.periods {
        1 => format!("{from} to {to} ({total})"),
        periods => format!("{from} to {to} ({periods} times, {total} in total)"),
    }
}

/// A time that the store reports, in the time zone of this machine.
pub(crate) fn local_time(text: &str) -> String {
    let local = |time: DateTime<_>| {
        let time = time.with_timezone(&Local);
        time.format("%Y-%m-%d %H:%M:%S").to_string()
    };
    DateTime::parse_from_rfc3339(text).map_or_else(|_| escape(text), local)
}
