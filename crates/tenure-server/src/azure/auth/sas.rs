//! "Create a service SAS" and "Create an account SAS" of the Azure Storage REST API.

use aws_lc_rs::hmac;
use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};

use super::{Grant, is_signed};
use crate::azure::error::{
    AUTHENTICATION_FAILED, AUTHORIZATION_PROTOCOL_MISMATCH, AUTHORIZATION_SERVICE_MISMATCH,
    AUTHORIZATION_SOURCE_IP_MISMATCH, Error, Result,
};
use crate::azure::target::{Query, Resource};

/// From this version on an encryption scope is signed, too.
const WITH_SCOPE: &str = "2020-12-06";

/// The first version with snapshots in what is signed, and the oldest that is taken.
const OLDEST: &str = "2018-11-09";

/// What the token in the query allows.
pub(super) fn verify(
    keys: &[hmac::Key],
    account: &str,
    resource: Option<&Resource>,
    query: &Query,
    is_secure: bool,
    now: DateTime<Utc>,
) -> Result<Grant> {
    // Which of two would count?
    query.check_unique()?;
    let get = |name| query.get(name).unwrap_or_default();
    let failed = |detail: &str| AUTHENTICATION_FAILED.because(detail);
    let version = get("sv");
    if version < OLDEST {
        return Err(failed("the version sv must be 2018-11-09 or newer"));
    }
    // Dates compare as text.
    let scope = (version >= WITH_SCOPE).then(|| get("ses"));
    let is_of_account = query.get("ss").is_some();
    let text = if is_of_account {
        account_text(account, query, scope)
    } else {
        service_text(account, resource, query, scope)?
    };
    if !is_signed(keys, text.as_bytes(), get("sig")) {
        return Err(AUTHENTICATION_FAILED.into());
    }

    let expiry = time(get("se")).ok_or_else(|| failed("the expiry se must be a time"))?;
    if now >= expiry {
        return Err(failed("the token has expired"));
    }
    if let Some(start) = query.get("st").filter(|start| !start.is_empty()) {
        let start = time(start).ok_or_else(|| failed("the start st must be a time"))?;
        if now < start {
            return Err(failed("the token is not valid yet"));
        }
    }
    // What can't be checked here must not be taken for fulfilled.
    if !get("sip").is_empty() {
        return Err(AUTHORIZATION_SOURCE_IP_MISMATCH.because("addresses in sip are not supported"));
    }
    match get("spr") {
        "" => {}
        _ if is_secure => {}
        protocols if protocols.split(',').any(|protocol| protocol == "http") => {}
        _ => return Err(AUTHORIZATION_PROTOCOL_MISMATCH.into()),
    }
    let permissions = get("sp").to_owned();
    if !is_of_account {
        return Ok(Grant::Service { permissions });
    }
    if !get("ss").contains('b') {
        return Err(AUTHORIZATION_SERVICE_MISMATCH.into());
    }
    Ok(Grant::Account {
        permissions,
        kinds: get("srt").to_owned(),
    })
}

fn account_text(account: &str, query: &Query, scope: Option<&str>) -> String {
    let mut text = format!("{account}\n");
    let names = ["sp", "ss", "srt", "st", "se", "sip", "spr", "sv"];
    for name in names {
        text.push_str(query.get(name).unwrap_or_default());
        text.push('\n');
    }
    if let Some(scope) = scope {
        text.push_str(scope);
        text.push('\n');
    }
    text
}

/// A service SAS is for one blob, or for one container with its blobs; which one, it does not say: it
/// is the one that was signed.
fn service_text(
    account: &str,
    resource: Option<&Resource>,
    query: &Query,
    scope: Option<&str>,
) -> Result<String> {
    let get = |name| query.get(name).unwrap_or_default();
    if !get("si").is_empty() {
        return Err(AUTHENTICATION_FAILED.because("stored access policies are not supported"));
    }
    if query.get("skoid").is_some() {
        return Err(AUTHENTICATION_FAILED.because("user delegation is not supported"));
    }
    let signed = match (get("sr"), resource) {
        ("b", Some(Resource::Blob { container, blob })) => format!("{container}/{blob}"),
        ("c", Some(Resource::Blob { container, .. } | Resource::Container(container))) => {
            container.clone()
        }
        _ => return Err(Error::from(AUTHENTICATION_FAILED)),
    };
    let signed = format!("/blob/{account}/{signed}");
    let before = [get("sp"), get("st"), get("se"), &signed, get("si")];
    let then = [get("sip"), get("spr"), get("sv"), get("sr"), ""];
    let response = ["rscc", "rscd", "rsce", "rscl", "rsct"].map(get);
    let parts = before.into_iter().chain(then).chain(scope).chain(response);
    Ok(parts.collect::<Vec<_>>().join("\n"))
}

/// A time of ISO 8601 in UTC, with or without seconds, or a day.
fn time(text: &str) -> Option<DateTime<Utc>> {
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(time.with_timezone(&Utc));
    }
    let formats = ["%Y-%m-%dT%H:%MZ", "%Y-%m-%dT%H:%M:%S%.fZ"];
    let time = formats
        .iter()
        .find_map(|format| NaiveDateTime::parse_from_str(text, format).ok())
        .or_else(|| {
            let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
            day.and_hms_opt(0, 0, 0)
        });
    Some(time?.and_utc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_may_have_seconds_minutes_or_days() {
        let noon = time("2026-11-21T12:00:00Z");
        assert!(noon.is_some());
        assert_eq!(time("2026-11-21T12:00Z"), noon);
        assert_eq!(time("2026-11-21T12:00:00.0000000Z"), noon);
        assert!(time("2026-11-21") < noon);
        assert_eq!(time("soon"), None);
    }
}
