//! The key `stop_signal`: how `tenure run` asks its command to stop.

use nix::sys::signal::Signal;
use tenure_config::{ConfigError, Settings};

/// The key.
pub(crate) const STOP_SIGNAL: &str = "stop_signal";

/// The signals that may ask a command to stop. The first watchdog, which is in the group of the
/// command, handles all of them, so that it outlives them.
pub(crate) const SIGNALS: [Signal; 8] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGWINCH,
];

/// The signal that asks the command to stop.
pub(super) fn stop_signal(settings: &Settings) -> Result<Signal, ConfigError> {
    let right = "must be the name or the number of a signal, such as \"QUIT\" or 3";
    Ok(settings
        .word(STOP_SIGNAL, right, parse)?
        .unwrap_or(Signal::SIGTERM))
}

/// The name of a signal without `SIG`, as in the settings.
pub(crate) fn name(signal: Signal) -> &'static str {
    signal.as_str().trim_start_matches("SIG")
}

/// Reads a name, with or without `SIG` and in any case, or a number.
fn parse(text: &str) -> Result<Signal, String> {
    let upper = text.trim().to_ascii_uppercase();
    let found = SIGNALS.into_iter().find(|signal| {
        let number = (*signal as i32).to_string();
        upper == signal.as_str() || upper == name(*signal) || upper == number
    });
    found.ok_or_else(|| {
        let names = SIGNALS.map(name).join(", ");
        format!("must be one of {names}, or the number of one of them")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_signal_has_a_name_or_a_number_and_a_process_can_handle_it() {
        for text in ["QUIT", "SIGQUIT", "quit", "sigquit", " 3 "] {
            assert_eq!(parse(text), Ok(Signal::SIGQUIT), "{text}");
        }
        for text in [
            "", "KILL", "9", "STOP", "19", "SEGV", "0", "-3", "3.0", "SIG", "SIG3", "65",
        ] {
            let reason = parse(text).unwrap_err();
            assert!(reason.contains("QUIT, HUP"), "{text}: {reason}");
        }
    }
}
