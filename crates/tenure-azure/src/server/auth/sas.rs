//! Shared access signatures, as in "Create a service SAS" and "Create an account SAS" of the Azure
//! Storage REST API.

use std::net::IpAddr;

use aws_lc_rs::hmac;
use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};

use super::{Grant, is_signed};
use crate::server::error::{
    AUTHENTICATION_FAILED, AUTHORIZATION_PROTOCOL_MISMATCH, AUTHORIZATION_SERVICE_MISMATCH,
    AUTHORIZATION_SOURCE_IP_MISMATCH, Result,
};
use crate::server::target::{Level, Query, Target};

/// From this version on the signature includes an encryption scope.
const WITH_SCOPE: &str = "2020-12-06";

/// The oldest version that is accepted, which is the first one whose signature includes snapshots.
const OLDEST: &str = "2018-11-09";

/// Checks the token in the query, and returns its permissions.
pub(super) fn verify(
    keys: &[hmac::Key],
    account: &str,
    target: Option<&Target>,
    query: &Query,
    now: DateTime<Utc>,
    is_secure: bool,
    address: Option<IpAddr>,
) -> Result<Grant> {
    // If a parameter is duplicate, it is ambiguous.
    query.check_unique()?;
    let get = |name| query.text(name);
    let failed = |detail: &str| AUTHENTICATION_FAILED.because(detail);
    let version = get("sv");
    if version < OLDEST {
        return Err(failed("the version sv must be 2018-11-09 or newer"));
    }
    // Versions are dates, which compare as text.
    let scope = (version >= WITH_SCOPE).then(|| get("ses"));
    let is_of_account = query.get("ss").is_some();
    let text = if is_of_account {
        account_text(account, query, scope)
    } else {
        service_text(account, target, query, scope)?
    };
    if !is_signed(keys, text.as_bytes(), get("sig")) {
        return Err(failed(
            "the signature sig is not that of the token's other parameters by a key of the account",
        ));
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
    let addresses = get("sip");
    if !addresses.is_empty() && !is_from(addresses, address) {
        return Err(AUTHORIZATION_SOURCE_IP_MISMATCH.into());
    }
    let protocol = if is_secure { "https" } else { "http" };
    let protocols = get("spr");
    if !protocols.is_empty() && !protocols.split(',').any(|allowed| allowed == protocol) {
        return Err(AUTHORIZATION_PROTOCOL_MISMATCH.into());
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
    let names = ["sp", "ss", "srt", "st", "se", "sip", "spr", "sv"];
    let values = names.map(|name| query.text(name));
    let lines = std::iter::once(account).chain(values).chain(scope);
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Returns the signed text of a service SAS. Such a token is for one blob, or for one container
/// with its blobs. The token does not name the resource, which is part of the signed text.
fn service_text(
    account: &str,
    target: Option<&Target>,
    query: &Query,
    scope: Option<&str>,
) -> Result<String> {
    let get = |name| query.text(name);
    if !get("si").is_empty() {
        return Err(AUTHENTICATION_FAILED.because("stored access policies are not supported"));
    }
    if query.get("skoid").is_some() {
        return Err(AUTHENTICATION_FAILED.because("user delegation is not supported"));
    }
    let level = target.map(Target::level);
    let signed = match (get("sr"), target) {
        ("b", Some(target)) if level == Some(Level::Blob) => {
            format!("/blob/{account}/{}/{}", target.container, target.blob)
        }
        ("c", Some(target)) if level != Some(Level::Account) => {
            format!("/blob/{account}/{}", target.container)
        }
        _ => {
            let reason = "the token's sr must be b for a blob, or c for a container and its blobs";
            return Err(AUTHENTICATION_FAILED.because(reason));
        }
    };
    let before = [get("sp"), get("st"), get("se"), &signed, get("si")];
    let then = [get("sip"), get("spr"), get("sv"), get("sr"), ""];
    let response = ["rscc", "rscd", "rsce", "rscl", "rsct"].map(get);
    let parts = before.into_iter().chain(then).chain(scope).chain(response);
    Ok(parts.collect::<Vec<_>>().join("\n"))
}

/// Returns whether the address is the allowed address, or in the range `FIRST-LAST`. An unknown
/// address is not allowed.
fn is_from(allowed: &str, address: Option<IpAddr>) -> bool {
    let parse = |text: &str| text.trim().parse::<IpAddr>().ok();
    let (first, last) = allowed.split_once('-').unwrap_or((allowed, allowed));
    let (Some(first), Some(last)) = (parse(first), parse(last)) else {
        return false;
    };
    // The canonical address is the IPv4 address of a client even if the socket accepts both
    // families.
    address
        .map(|address| address.to_canonical())
        .is_some_and(|address| {
            let is_of_kind = |end: IpAddr| end.is_ipv4() == address.is_ipv4();
            is_of_kind(first) && is_of_kind(last) && (first..=last).contains(&address)
        })
}

/// Parses a time in ISO 8601 and UTC, with or without seconds, or a date.
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
    #[test]
    fn an_address_is_a_single_one_or_a_range() {
        let from = |allowed: &str, address: &str| is_from(allowed, address.parse().ok());
        for (allowed, address) in [
            ("10.0.0.5", "10.0.0.5"),
            ("10.0.0.5-10.0.0.9", "10.0.0.5"),
            ("10.0.0.5-10.0.0.9", "10.0.0.9"),
            ("10.0.0.200-10.0.1.3", "10.0.1.0"),
            ("10.0.0.5", "::ffff:10.0.0.5"),
            ("::1", "::1"),
        ] {
            assert!(from(allowed, address), "{allowed} {address}");
        }
        for (allowed, address) in [
            ("10.0.0.5", "10.0.0.6"),
            ("10.0.0.5-10.0.0.9", "10.0.0.4"),
            ("10.0.0.5-10.0.0.9", "10.0.0.10"),
            ("10.0.0.9-10.0.0.5", "10.0.0.7"),
            ("0.0.0.0-255.255.255.255", "::1"),
            ("0.0.0.0-ffff::", "::1"),
            ("10.0.0.0/8", "10.0.0.1"),
            ("anywhere", "10.0.0.1"),
            ("10.0.0.5", "not known"),
        ] {
            assert!(!from(allowed, address), "{allowed} {address}");
        }
    }
}
