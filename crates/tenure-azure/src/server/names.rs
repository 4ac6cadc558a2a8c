//! Names of accounts, containers and blobs, and the names of their leases.
//!
//! ```text
//! container  https://host/{account}/{container}           namespace {account}              lease {container}
//! blob       https://host/{account}/{container}/{blob}    namespace {account}.{container}  lease {blob}
//! ```
//!
//! Names of accounts and containers have no dot, so all these are different. A blob's name may
//! contain slashes and up to 1,024 characters. A name that is not a valid native name is escaped:
//! `__` is prepended, and each byte other than a letter, a digit, `.` and `-` becomes `_` and two
//! hexadecimal digits. If the result is too long, the name becomes `__sha256-` and its hash.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::protocol;
use aws_lc_rs::digest::{SHA256, digest};
use tenure_core::Name;
use tenure_core::name::MAX_NAME_LEN;

use super::error::{Error, INVALID_RESOURCE_NAME, OUT_OF_RANGE_INPUT, Result};
use super::target::{Level, Target};
use tenure_server::LeaseKey;

/// The prefix of an escaped name.
const ESCAPED: &str = "__";

/// Returns the key of the lease of a container or a blob.
pub(super) fn lease_key(target: &Target) -> Result<LeaseKey> {
    let (namespace, lease) = match target.level() {
        // The native name of a container contains no dot, because the name of a container contains
        // none.
        Level::Blob => {
            let namespace = format!("{}.{}", target.account, native(&target.container));
            (Cow::from(namespace), &target.blob)
        }
        Level::Container | Level::Account => (Cow::from(&target.account), &target.container),
    };
    LeaseKey::of_path(&namespace, &native(lease)).ok_or_else(|| invalid("it is too long"))
}

/// Converts a name to a native name. Different names have different native names.
fn native(name: &str) -> Cow<'_, str> {
    if !name.starts_with(ESCAPED) && Name::check(name).is_ok() {
        return name.into();
    }
    let mut written = String::from(ESCAPED);
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' => written.push(byte.into()),
            _ => {
                let _ = write!(written, "_{byte:02X}");
            }
        }
    }
    if written.len() <= MAX_NAME_LEN {
        return written.into();
    }
    // No other name results in this one, because a name that starts with `__` is itself escaped.
    let mut hashed = format!("{ESCAPED}sha256-");
    for byte in digest(&SHA256, name.as_bytes()).as_ref() {
        let _ = write!(hashed, "{byte:02x}");
    }
    hashed.into()
}

/// Checks the names of the container and the blob.
pub(super) fn check_names(target: &Target) -> Result<()> {
    let (level, container) = (target.level(), &target.container);
    if level == Level::Account {
        return Ok(());
    }
    // Only the service creates the container $logs.
    if !protocol::is_container(container) || container == "$logs" {
        if !protocol::CONTAINER_NAME.contains(&container.len()) {
            return Err(OUT_OF_RANGE_INPUT.because("a container's name has 3 to 63 characters"));
        }
        return Err(invalid(
            "a container's name has 3 to 63 lower-case letters, digits and single hyphens",
        ));
    }
    if level == Level::Blob && !protocol::is_blob(&target.blob) {
        return Err(invalid("a blob's name has 1 to 1024 characters"));
    }
    Ok(())
}

fn invalid(detail: &str) -> Error {
    INVALID_RESOURCE_NAME.because(detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn native_names_stay_as_they_are_and_all_names_stay_different() {
        let long = "x".repeat(129);
        let slashes = "a/".repeat(100);
        let names = [
            "leader",
            "a_b",
            "_",
            "a.b-c",
            "locks/host",
            "locks_2Fhost",
            "__locks_2Fhost",
            "__",
            ".",
            "..",
            "a b",
            "ä",
            "a+b",
            "$root",
            &long,
            &slashes,
            "sha256-00",
            "__sha256-00",
        ];
        let mut seen = BTreeMap::new();
        for name in names {
            let written = native(name);
            assert!(written.parse::<Name>().is_ok(), "{name} {written}");
            if let Some(other) = seen.insert(written.clone(), name) {
                panic!("{name} and {other} are both {written}");
            }
        }
        assert_eq!(native("leader"), "leader");
        assert_eq!(native("locks/host"), "__locks_2Fhost");
        let hash = native(&slashes);
        assert!(hash.starts_with("__sha256-") && hash.len() == 9 + 64);
    }

    #[test]
    fn leases_of_containers_and_blobs_are_in_different_namespaces() {
        for (container, blob, expected) in [
            ("leases", "", "acct/leases"),
            ("leases", "leader", "acct.leases/leader"),
            ("$root", "x", "acct.___24root/x"),
        ] {
            let key = lease_key(&Target::new("acct", container, blob));
            assert_eq!(key.unwrap().as_str(), expected);
        }
    }
}
