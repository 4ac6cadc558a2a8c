//! Checks of SQLite's write-ahead log before SQLite reads it, and its move into the database.
//!
//! SQLite reads the log up to the first frame that does not match its checksum, and silently drops
//! the rest. That is right for a tail that a power cut tore. It is wrong for a flipped bit in the
//! middle of acknowledged commits. This module distinguishes the two cases. The format is that of
//! "The SQLite database file format", section 4, "The Write-Ahead Log".

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::OpenError;

/// The way in which a log is moved into its database. The store moves it explicitly: SQLite's
/// automatic checkpoints drop their errors, and a failed fsync must not be missed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Checkpoint {
    /// Move as much as the readers allow.
    Passive,
    /// Move all of it, and truncate the log.
    Truncate,
}

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// Checks that SQLite may read the log of the database `path`. A missing log is valid.
///
/// A transaction is fsynced before the next one is written. So if a *later* transaction follows an
/// invalid frame, that frame was durable once, and the log is damaged. If none follows, the frame
/// is part of the last transaction, which was not acknowledged.
pub(super) fn check(path: &Path) -> Result<(), OpenError> {
    let path = log_of(path);
    let mut file = match File::open(&path) {
        Ok(file) => BufReader::new(file),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(OpenError::Io { path, error }),
    };
    match first_damage(&mut file) {
        Ok(None) => Ok(()),
        Ok(Some(detail)) => Err(OpenError::Damaged { path, detail }),
        Err(error) => Err(OpenError::Io { path, error }),
    }
}

/// Returns the path of the write-ahead log of the database `path`.
pub(super) fn log_of(path: &Path) -> PathBuf {
    with_suffix(path, "-wal")
}

/// Returns `path` with a suffix appended to its name.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Moves the log into the database. Returns whether all of it was moved; if not, another program is
/// reading the database, and a later attempt may succeed.
pub(super) fn checkpoint(connection: &Connection, how: Checkpoint) -> rusqlite::Result<bool> {
    let sql = match how {
        Checkpoint::Passive => "PRAGMA wal_checkpoint(PASSIVE)",
        Checkpoint::Truncate => "PRAGMA wal_checkpoint(TRUNCATE)",
    };
    let is_busy: bool = connection.query_row(sql, [], |row| row.get(0))?;
    Ok(!is_busy)
}

fn first_damage(log: &mut impl BufRead) -> std::io::Result<Option<String>> {
    let mut header = [0; HEADER];
    if !read_whole(log, &mut header)? || log.fill_buf()?.is_empty() {
        // The log has no frame.
        return Ok(None);
    }
    let order = match number(&header, 0) {
        0x377f_0682 => u32::from_le_bytes,
        0x377f_0683 => u32::from_be_bytes,
        _ => return Ok(Some("its header is not one of a log".into())),
    };
    // The header is fsynced before the first frame is written, so a log with frames has a complete
    // header.
    let mut sum = checksum((0, 0), &header[..24], order);
    if sum != (number(&header, 24), number(&header, 28)) {
        return Ok(Some("its header does not match its checksum".into()));
    }
    let page_size = number(&header, 8) as usize;
    if !page_size.is_power_of_two() || !(512..=65536).contains(&page_size) {
        return Ok(Some(format!("its header has the page size {page_size}")));
    }
    let mut frame = vec![0; FRAME_HEADER + page_size];
    let mut bad = None;
    let mut ends_later = false;
    for index in 1.. {
        if !read_whole(log, &mut frame)? {
            break;
        }
        // Frames with other salts are older than the last restart of the log.
        let is_of_this_log = frame[8..16] == header[16..24];
        let Some(bad) = bad else {
            sum = checksum(sum, &frame[..8], order);
            sum = checksum(sum, &frame[FRAME_HEADER..], order);
            let fits = is_of_this_log && sum == (number(&frame, 16), number(&frame, 20));
            if !fits {
                bad = Some(index);
                // The invalid frame may itself be the last one of its transaction.
                ends_later = number(&frame, 4) != 0;
            }
            continue;
        };
        if is_of_this_log {
            if ends_later {
                return Ok(Some(format!(
                    "its frame {bad} is bad and frame {index} belongs to a later transaction"
                )));
            }
            ends_later = number(&frame, 4) != 0;
        }
    }
    Ok(None)
}

/// Fills the buffer. Returns `false` if the log ends before.
fn read_whole(log: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<bool> {
    match log.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn checksum(sum: (u32, u32), bytes: &[u8], order: fn([u8; 4]) -> u32) -> (u32, u32) {
    let (mut first, mut second) = sum;
    for pair in bytes.chunks_exact(8) {
        let word = |at: usize| order([pair[at], pair[at + 1], pair[at + 2], pair[at + 3]]);
        first = first.wrapping_add(word(0)).wrapping_add(second);
        second = second.wrapping_add(word(4)).wrapping_add(first);
    }
    (first, second)
}
