//! The checksum of a row.

/// A checksum over columns: each counts with its length, so that no text can slip from one into the
/// next.
#[derive(Default)]
pub(super) struct Checksum(crc32fast::Hasher);

impl Checksum {
    pub(super) fn column(&mut self, bytes: Option<&[u8]>) {
        let len = bytes.map_or(u64::MAX, |bytes| bytes.len() as u64);
        self.0.update(&len.to_le_bytes());
        self.0.update(bytes.unwrap_or_default());
    }

    pub(super) fn number(&mut self, number: Option<u64>) {
        let bytes = number.map(u64::to_le_bytes);
        self.column(bytes.as_ref().map(<[u8; 8]>::as_slice));
    }

    pub(super) fn finish(self) -> u32 {
        self.0.finalize()
    }
}
