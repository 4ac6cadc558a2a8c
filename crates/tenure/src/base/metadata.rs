//! The limit of metadata.

use std::collections::BTreeMap;

use tenure_core::wire::MAX_METADATA_BYTES;

/// Checks that a leader may publish these metadata. The check is the same for all strategies.
pub(crate) fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<(), String> {
    let parts = metadata.iter().map(|(key, text)| key.len() + text.len());
    let bytes: usize = parts.sum();
    if bytes > MAX_METADATA_BYTES {
        return Err(format!(
            "the metadata have {bytes} bytes, at most {MAX_METADATA_BYTES} are allowed"
        ));
    }
    Ok(())
}
