//! The versions of etcd that can be used.

use std::fmt;

use serde_json::Value;

/// A version of etcd: major, minor, patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(u64, u64, u64);

impl Version {
    /// Reads the answer to `/version`.
    pub(super) fn read(body: &[u8]) -> Option<Self> {
        let answer: Value = serde_json::from_slice(body).ok()?;
        // A pre-release has a suffix after a hyphen.
        let numbers = answer["etcdserver"].as_str()?.split(['-', '+']).next()?;
        let mut numbers = numbers.split('.').map(|number| number.parse().ok());
        Some(Self(numbers.next()??, numbers.next()??, numbers.next()??))
    }

    /// Checks this version of the member with this URL. Returns a warning if it has known errors.
    ///
    /// # Errors
    ///
    /// It must not be used.
    pub(super) fn check(self, url: &str) -> Result<Option<String>, String> {
        match self {
            Self(0..=2, ..) | Self(3, 0..=3, _) => Err(format!(
                "etcd {self} at {url} is too old: upgrade it to 3.5.30, 3.6.11 or later"
            )),
            // https://github.com/etcd-io/etcd/issues/13766
            Self(3, 5, 0..=4) => Err(format!(
                "etcd {self} at {url} may lose acknowledged changes (3.5.0 to 3.5.4 do): upgrade \
                 it to 3.5.30 or later"
            )),
            Self(3, 4, _) | Self(3, 5, ..30) | Self(3, 6, ..11) => Ok(Some(format!(
                "etcd {self} at {url} has known errors in its access control: upgrade it to \
                 3.5.30, 3.6.11 or later"
            ))),
            _ => Ok(None),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_lose_data_are_refused_and_old_ones_are_warned_of() {
        let check = |version: &str| {
            let body = format!(r#"{{"etcdserver":"{version}","etcdcluster":"3.4.0"}}"#);
            let version = Version::read(body.as_bytes()).unwrap();
            version.check("http://etcd:2379")
        };
        for refused in ["2.3.8", "3.3.27", "3.5.0", "3.5.4", "3.5.0-rc.1"] {
            assert!(check(refused).is_err(), "{refused}");
        }
        for old in ["3.4.0", "3.4.23", "3.5.5", "3.5.29", "3.6.0", "3.6.10"] {
            assert!(check(old).unwrap().is_some(), "{old}");
        }
        for good in ["3.5.30", "3.6.11", "3.7.0", "4.0.0", "3.6.11+git"] {
            assert_eq!(check(good), Ok(None), "{good}");
        }
    }

    #[test]
    fn another_answer_is_no_version() {
        for body in [
            "",
            "{}",
            "ok",
            r#"{"etcdserver":"3"}"#,
            r#"{"etcdserver":"a.b.c"}"#,
        ] {
            assert_eq!(Version::read(body.as_bytes()), None, "{body}");
        }
    }
}
