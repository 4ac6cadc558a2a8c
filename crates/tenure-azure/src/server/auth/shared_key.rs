//! "Authorize with Shared Key" of the Azure Storage REST API.
//!
//! The signature covers the request as sent, without any normalisation. The order of the `x-ms-*`
//! headers is the service's collation order, which the documents call lexicographical; older
//! clients sort by bytes. The store tries both orders. That is safe because the same headers are
//! signed in both orders.

use std::cmp::Ordering;

use crate::protocol::{DATE_HEADER, collate, text_to_sign};
use aws_lc_rs::hmac;
use axum::http::request::Parts;
use chrono::{DateTime, Duration, Utc};

use super::is_signed;
use crate::server::error::{AUTHENTICATION_FAILED, Result};
use crate::server::headers::{date, http_date};
use crate::server::target::Query;

/// The largest difference between the clocks of client and store.
const SKEW: Duration = Duration::minutes(15);

/// The error for a wrong signature, and also for an unknown account.
const WRONG_SIGNATURE: &str =
    "the signature in the header Authorization is not that of this request by a key of the account";

/// Checks the credential `ACCOUNT:SIGNATURE` for this request.
pub(super) fn verify(
    keys: &[hmac::Key],
    parts: &Parts,
    account: &str,
    query: &Query,
    credential: &str,
    now: DateTime<Utc>,
) -> Result<()> {
    let (signer, signature) = credential.split_once(':').ok_or_else(|| {
        AUTHENTICATION_FAILED
            .because("the header Authorization must be SharedKey ACCOUNT:SIGNATURE")
    })?;
    let is_signed_in = |order: fn(&str, &str) -> Ordering| {
        let (method, path) = (parts.method.as_str(), parts.uri.path());
        let pairs = query.pairs();
        let text = text_to_sign(method, account, path, &parts.headers, order, pairs);
        is_signed(keys, &text, signature)
    };
    if !(is_signed_in(collate) || is_signed_in(str::cmp)) || signer != account {
        return Err(AUTHENTICATION_FAILED.because(WRONG_SIGNATURE));
    }
    let of = |name: &str| {
        parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    let signed_at = of(DATE_HEADER).or_else(|| of("date")).and_then(date);
    let Some(signed_at) = signed_at else {
        return Err(AUTHENTICATION_FAILED.because("there is no date in x-ms-date or Date"));
    };
    if (now - signed_at).abs() > SKEW {
        return Err(AUTHENTICATION_FAILED.because(format!(
            "the date of the request, {}, is more than 15 minutes from the time of the store, {}",
            http_date(signed_at),
            http_date(now)
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;

    use crate::server::config::ServedAccount;

    const NOW: &str = "Sat, 21 Nov 2026 12:00:00 GMT";

    fn request(method: &str, uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn check(parts: &Parts, account: &str, signature: &str, now: &str) -> bool {
        let query = Query::parse(parts.uri.query()).unwrap();
        let credential = format!("{account}:{signature}");
        let keys = ServedAccount::development().keys;
        let now = date(now).unwrap();
        verify(&keys, parts, "devstoreaccount1", &query, &credential, now).is_ok()
    }

    fn signed(text: &str) -> String {
        let key = &ServedAccount::development().keys[0];
        BASE64_STANDARD.encode(hmac::sign(key, text.as_bytes()))
    }

    #[test]
    fn the_signed_text_is_the_request_as_sent() {
        let parts = request(
            "PUT",
            "/devstoreaccount1/leases/a%2Fb//c+d?comp=lease&timeout=3&Empty=&v=x%20y",
            &[
                ("content-length", "0"),
                ("date", "Sat, 21 Nov 2026 11:00:00 GMT"),
                ("x-ms-date", NOW),
                ("x-ms-lease-action", "acquire"),
                ("if-none-match", "*"),
                ("x-ms-empty", ""),
                ("x-ms-version", "2026-10-06"),
            ],
        );
        let text = format!(
            "PUT\n\n\n\n\n\n\n\n\n*\n\n\nx-ms-date:{NOW}\nx-ms-empty:\nx-ms-lease-action:acquire\n\
             x-ms-version:2026-10-06\n/devstoreaccount1/devstoreaccount1/leases/a%2Fb//c+d\n\
             comp:lease\nempty:\ntimeout:3\nv:x y"
        );
        assert!(check(&parts, "devstoreaccount1", &signed(&text), NOW));
        let other = text.replace("acquire", "release");
        assert!(!check(&parts, "devstoreaccount1", &signed(&other), NOW));
        assert!(!check(&parts, "other", &signed(&text), NOW));
        for nonsense in ["", "x", "!!!", "AAAA"] {
            assert!(!check(&parts, "devstoreaccount1", nonsense, NOW));
        }
    }

    #[test]
    fn a_date_may_differ_by_at_most_15_minutes() {
        let parts = request("GET", "/devstoreaccount1/c", &[("date", NOW)]);
        let text = format!("GET\n\n\n\n\n\n{NOW}\n\n\n\n\n\n/devstoreaccount1/devstoreaccount1/c");
        let signature = signed(&text);
        for (now, is_right) in [
            (NOW, true),
            ("Sat, 21 Nov 2026 12:15:00 GMT", true),
            ("Sat, 21 Nov 2026 11:45:00 GMT", true),
            ("Sat, 21 Nov 2026 12:15:01 GMT", false),
            ("Sat, 21 Nov 2026 11:44:59 GMT", false),
        ] {
            assert_eq!(check(&parts, "devstoreaccount1", &signature, now), is_right);
        }
        let undated = request("GET", "/devstoreaccount1/c", &[]);
        let text = "GET\n\n\n\n\n\n\n\n\n\n\n\n/devstoreaccount1/devstoreaccount1/c";
        assert!(!check(&undated, "devstoreaccount1", &signed(text), NOW));
    }

    #[test]
    fn headers_may_be_in_the_order_of_the_service_or_of_bytes() {
        let names = [
            "x-ms-meta-a",
            "x-ms-meta-a_b",
            "x-ms-meta-a1",
            "x-ms-meta-ab",
        ];
        let mut headers: Vec<(&str, &str)> = names.map(|name| (name, "v")).into();
        headers.push(("x-ms-date", NOW));
        let parts = request("PUT", "/devstoreaccount1/c/b", &headers);
        let text = |names: [&str; 4]| {
            let meta: String = names.iter().map(|name| format!("{name}:v\n")).collect();
            format!(
                "PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{NOW}\n{meta}/devstoreaccount1/devstoreaccount1/c/b"
            )
        };
        let mut bytewise = names;
        bytewise.sort_unstable();
        assert_ne!(names, bytewise);
        let mut neither = names;
        neither.reverse();
        for (order, is_right) in [(names, true), (bytewise, true), (neither, false)] {
            let signature = signed(&text(order));
            assert_eq!(check(&parts, "devstoreaccount1", &signature, NOW), is_right);
        }
    }
}
