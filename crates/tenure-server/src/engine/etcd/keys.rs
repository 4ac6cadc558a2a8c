//! The keys of a log in etcd.

use std::str;

use tenure_register::etcd::wire::Encoded;

/// The keys of one log.
#[derive(Debug)]
pub(super) struct Keys {
    /// The beginning of all keys.
    prefix: String,
}

impl Keys {
    pub(super) fn new(prefix: &str, cluster: &str) -> Self {
        Self {
            prefix: format!("{prefix}{cluster}/0/"),
        }
    }

    pub(super) fn head(&self) -> Encoded {
        self.place("head")
    }

    pub(super) fn place(&self, key: &str) -> Encoded {
        format!("{}{key}", self.prefix).into()
    }

    /// The key of a batch. The keys have the order of the numbers.
    pub(super) fn batch(&self, sequence: u64) -> Encoded {
        format!("{}log/{sequence:020}", self.prefix).into()
    }

    /// The first key after all batches.
    pub(super) fn end_of_batches(&self) -> Encoded {
        self.place("log0")
    }

    /// Returns the number of the batch with this key.
    pub(super) fn sequence(&self, key: &[u8]) -> Option<u64> {
        self.name(key)?.strip_prefix("log/")?.parse().ok()
    }

    /// Returns the part of the key after the beginning that all keys of the log have.
    pub(super) fn name<'a>(&self, key: &'a [u8]) -> Option<&'a str> {
        str::from_utf8(key).ok()?.strip_prefix(&self.prefix)
    }
}
