//! Exit codes.

use tenure::ConfigError;

/// Wrong usage or configuration; clap uses the same code for usage.
pub(crate) const BAD_CONFIGURATION: u8 = 2;

/// For `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0    success
  1    error, see stderr; compare check: invariant violated
  2    wrong usage or configuration
  128 + N if signal N ended a live comparison";

/// An error that ends the command with this exit code.
pub(crate) fn error(code: u8, error: impl Into<anyhow::Error>) -> anyhow::Error {
    let error = error.into();
    WithCode { code, error }.into()
}

/// An error in usage or configuration.
pub(crate) fn bad_configuration(text: impl Into<String>) -> anyhow::Error {
    error(BAD_CONFIGURATION, anyhow::Error::msg(text.into()))
}

/// The exit code of a command that ends with this error.
pub(crate) fn code_of(error: &anyhow::Error) -> u8 {
    let code = |error: &(dyn std::error::Error + 'static)| match error.downcast_ref() {
        Some(WithCode { code, .. }) => Some(*code),
        None => error.is::<ConfigError>().then_some(BAD_CONFIGURATION),
    };
    error.chain().find_map(code).unwrap_or(1)
}

#[derive(Debug, thiserror::Error)]
#[error("{error:#}")]
struct WithCode {
    code: u8,
    error: anyhow::Error,
}
