//! The record of a member on disk.

use std::io::Read as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tenure_core::NodeId;
use tenure_core::bully::HardState;

use super::dir::StateDir;
use crate::base::member_error::{STATE_FORMAT, StateError};
use crate::peers::wire::Fingerprint;

/// The word before the format.
const MARK: &str = "tenure-member";

const RECORD: &str = "record";

/// The name of the file that shows that there is a record. If it exists, a missing record is
/// damage.
const MARKER: &str = "FORMAT";

/// The size of the largest record that is read.
const MAX_BYTES: u64 = 64 * 1024;

/// A member's record in its state directory, until this is dropped.
///
/// A member that loses its promises can help to elect a second leader. So the record is checked,
/// and a missing record is an error. Only a directory that contains neither a record nor the marker
/// of a record is a first start.
#[derive(Debug)]
pub(crate) struct StateFile {
    directory: StateDir,
    is_marked: bool,
    content: Content,
    /// Whether the members had other settings when the file was written.
    pub(crate) config_changed: bool,
    /// The settings of the members when the file was written, for people.
    pub(crate) former_settings: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    cluster: String,
    node: NodeId,
    config: String,
    /// The settings of the group, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    settings: Option<String>,
    /// The id of the store that the group uses, with a fallback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    store: Option<String>,
    record: HardState,
}

impl StateFile {
    /// Opens the state directory of a member and reads its record. A directory that does not exist
    /// is created; like an empty directory, it means a first start. `group` is the name of the group
    /// with its namespace. This function blocks.
    ///
    /// # Errors
    ///
    /// [`StateError`].
    pub(crate) fn open(
        path: &Path,
        group: &str,
        node: NodeId,
        fingerprint: &Fingerprint,
    ) -> Result<Self, StateError> {
        let directory = StateDir::open(path)?;
        let is_marked = check_marker(&directory)?;
        let path = directory.path_of(RECORD);
        let found = read(&directory, RECORD)?;
        let mut file = Self {
            directory,
            is_marked,
            content: Content {
                cluster: group.into(),
                node,
                config: fingerprint.hash.clone(),
                settings: Some(fingerprint.text.clone()),
                store: None,
                record: HardState::default(),
            },
            config_changed: false,
            former_settings: None,
        };
        let Some(bytes) = found else {
            if is_marked {
                return Err(StateError::Missing(path));
            }
            return Ok(file);
        };
        let found = parse(&path, &bytes)?;
        if (&found.cluster, found.node) != (&file.content.cluster, node) {
            return Err(StateError::AnotherMember {
                path,
                found_node: found.node,
                found_cluster: found.cluster,
                node,
                cluster: file.content.cluster,
            });
        }
        file.config_changed = found.config != file.content.config;
        file.former_settings = found.settings;
        file.content.store = found.store;
        file.content.record = found.record;
        Ok(file)
    }

    /// Returns the record on disk, or the default record at a first start.
    pub(crate) const fn record(&self) -> HardState {
        self.content.record
    }

    /// Returns the id of the store that the group uses, if the member remembers one.
    pub(crate) fn store(&self) -> Option<&str> {
        self.content.store.as_deref()
    }

    /// Replaces the store that the member remembers. The next write of the record makes this
    /// durable.
    pub(crate) fn replace_store(&mut self, id: Option<String>) {
        self.content.store = id;
    }

    /// Remembers the store that the group uses. The function blocks until it is on disk.
    ///
    /// # Errors
    ///
    /// [`StateError::Io`].
    pub(crate) fn set_store(&mut self, id: String) -> Result<(), StateError> {
        self.content.store = Some(id);
        self.write(&self.record())
    }

    /// Replaces the record. The function blocks until the record is on disk.
    ///
    /// # Errors
    ///
    /// [`StateError::Io`]. The record on disk is then complete: it is the old record, or the new
    /// one if only the last step failed. The member must not send a message that depends on the new
    /// record.
    pub(crate) fn write(&mut self, record: &HardState) -> Result<(), StateError> {
        self.content.record = *record;
        // Text and numbers always result in JSON.
        let body = serde_json::to_string(&self.content).unwrap_or_default();
        self.directory.replace(RECORD, render(&body).as_bytes())?;
        if !self.is_marked {
            // The marker is written after the record. A start that was interrupted before is still
            // a first start, because the member has promised nothing.
            let marker = format!("{MARK} {STATE_FORMAT}\n");
            self.directory.replace(MARKER, marker.as_bytes())?;
            self.is_marked = true;
        }
        Ok(())
    }
}

/// Returns whether there is or was a record.
fn check_marker(directory: &StateDir) -> Result<bool, StateError> {
    let Some(bytes) = read(directory, MARKER)? else {
        return Ok(false);
    };
    let path = &directory.path_of(MARKER);
    let text = String::from_utf8_lossy(&bytes);
    match format_of(&text) {
        Some(STATE_FORMAT) if text == format!("{MARK} {STATE_FORMAT}\n") => Ok(true),
        Some(found) if found > STATE_FORMAT => Err(newer(path, found)),
        _ => Err(damaged(
            path,
            format!("it should say \"{MARK} {STATE_FORMAT}\""),
        )),
    }
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Content, StateError> {
    let text = str::from_utf8(bytes).map_err(|error| damaged(path, error.to_string()))?;
    if let Some(found) = format_of(text).filter(|found| *found > STATE_FORMAT) {
        return Err(newer(path, found));
    }
    let body = text.split_once('\n').map_or("", |(_, body)| body);
    let body = body.strip_suffix('\n').unwrap_or(body);
    // The first line is checked too: it must match the second line.
    if text != render(body) {
        return Err(damaged(path, "its checksum is wrong".into()));
    }
    serde_json::from_str(body).map_err(|error| damaged(path, error.to_string()))
}

/// Formats a record as a line with the format and a checksum, and a line of JSON.
fn render(body: &str) -> String {
    let checksum = crc32fast::hash(body.as_bytes());
    format!("{MARK} {STATE_FORMAT} crc32 {checksum:08x}\n{body}\n")
}

fn format_of(text: &str) -> Option<u32> {
    let after = text.strip_prefix(MARK)?.strip_prefix(' ')?;
    after.split_whitespace().next()?.parse().ok()
}

fn read(directory: &StateDir, name: &str) -> Result<Option<Vec<u8>>, StateError> {
    let path = &directory.path_of(name);
    let Some(file) = directory.file(name).map_err(StateError::io(path))? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    match read.map_err(StateError::io(path))? {
        length if length as u64 > MAX_BYTES => {
            Err(damaged(path, format!("it has more than {MAX_BYTES} bytes")))
        }
        _ => Ok(Some(bytes)),
    }
}

fn damaged(path: &Path, detail: String) -> StateError {
    StateError::Damaged(path.to_owned(), detail)
}

fn newer(path: &Path, found: u32) -> StateError {
    StateError::Newer(path.to_owned(), found)
}
