//! The reasons for refused credentials, in the log at the level debug. Answers do not contain them.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::{Level, debug, event_enabled};

/// The interval after which further lines are written.
const INTERVAL: Duration = Duration::from_secs(60);
/// The maximum number of lines in an interval: a flood of wrong credentials must not fill the disk.
const MAX_LINES: u32 = 10;
/// The maximum number of characters of a name in a line. The sender of a credential chooses the
/// names in it.
const MAX_NAME_CHARS: usize = 256;

/// A log of refused credentials: a line at the level debug for each of them, with the check that
/// failed, and at most ten lines a minute.
#[derive(Debug, Default)]
pub struct RefusalLog(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    since: Option<Instant>,
    written: u32,
    omitted: u64,
}

/// The public names in a credential, whether they are true or not. None of them is a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CredentialNames {
    /// The authority that the credential names: the claim `iss`, or the issuer of a certificate.
    pub iss: Option<String>,
    /// The subject: the claim `sub`, the subject of a certificate, the principal of a session, or
    /// an account.
    pub sub: Option<String>,
    /// The id of the key of a signature.
    pub kid: Option<String>,
    /// The id of a token, or the serial number of a certificate.
    pub id: Option<String>,
}

impl RefusalLog {
    /// Writes the line of a refused credential of this kind, which came from this address.
    pub fn record(
        &self,
        kind: &str,
        check: &str,
        address: Option<IpAddr>,
        names: impl FnOnce() -> CredentialNames,
    ) {
        // `enabled!` asks for neither an event nor a span, which the command's filter refuses.
        if !event_enabled!(Level::DEBUG) {
            return;
        }
        let Some(omitted) = self.admit(Instant::now()) else {
            return;
        };
        let names = names();
        // The subscriber escapes texts, but not values that are displayed.
        debug!(
            kind,
            check,
            iss = shortened(names.iss.as_ref()),
            sub = shortened(names.sub.as_ref()),
            kid = shortened(names.kid.as_ref()),
            id = shortened(names.id.as_ref()),
            address = address.map(|address| address.to_string()),
            omitted,
            "a credential is refused"
        );
    }

    /// Returns whether a line may be written now, with the number of lines that were omitted before
    /// it.
    fn admit(&self, now: Instant) -> Option<u64> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.since.is_none_or(|since| now >= since + INTERVAL) {
            (lines.since, lines.written) = (Some(now), 0);
        }
        if lines.written >= MAX_LINES {
            lines.omitted += 1;
            return None;
        }
        lines.written += 1;
        Some(std::mem::take(&mut lines.omitted))
    }
}

fn shortened(name: Option<&String>) -> Option<&str> {
    let end = |name: &str| name.char_indices().nth(MAX_NAME_CHARS).map(|(end, _)| end);
    name.map(|name| &name[..end(name).unwrap_or(name.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_lines_are_written_in_a_minute_and_the_next_one_has_the_number_of_the_others() {
        let (log, start) = (RefusalLog::default(), Instant::now());
        let admitted = |seconds| {
            let now = start + Duration::from_secs(seconds);
            let lines = (0..100).filter_map(|_| log.admit(now));
            lines.collect::<Vec<_>>()
        };
        assert_eq!(admitted(0), [0; 10]);
        assert!(admitted(59).is_empty());
        assert_eq!(admitted(60)[..2], [190, 0]);
    }

    #[test]
    fn a_long_name_is_cut_at_a_character() {
        let (short, long) = ("ä".repeat(MAX_NAME_CHARS), "ä".repeat(10_000));
        assert_eq!(shortened(Some(&long)), Some(&*short));
        assert_eq!(shortened(Some(&short)), Some(&*short));
    }
}
