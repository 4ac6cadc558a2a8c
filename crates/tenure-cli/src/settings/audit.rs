//! The table `[audit]`: the audit log of the store.

use serde_json::Value;
use tenure::__cli::Settings;
use tenure::config::ConfigError;
use tenure_server::audit::{Audit, AuditTarget};

use super::table::SettingsTable;

pub(crate) const TABLE: SettingsTable = SettingsTable {
    name: "audit",
    prefix: "TENURE_AUDIT_",
    keys: &["file", "required"],
};

/// The file that stands for standard error.
const STDERR: &str = "stderr";

/// Opens the audit log, if one is set.
pub(crate) fn open(settings: &Settings) -> Result<Audit, ConfigError> {
    let target = match settings.text("file")? {
        None | Some("") => return Ok(Audit::none()),
        Some(STDERR) => AuditTarget::Stderr,
        Some(path) => AuditTarget::File(path.into()),
    };
    let is_required = settings.flag("required")?.unwrap_or_default();
    Audit::open(target, is_required).map_err(|error| settings.invalid("file", error.to_string()))
}

/// Each key with its value in effect; all values are checked.
pub(crate) fn values(settings: &Settings) -> Result<Vec<(&'static str, Value)>, ConfigError> {
    let file = settings.text("file")?.filter(|file| !file.is_empty());
    let is_required = settings.flag("required")?.unwrap_or_default();
    Ok(vec![
        ("file", file.into()),
        ("required", is_required.into()),
    ])
}
