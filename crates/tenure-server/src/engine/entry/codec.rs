//! The encoding of columns as bytes, which a row's checksum covers and which batches contain.
//!
//! A column is its length plus one as a varint, followed by its bytes; a null column is a zero. The
//! encoding is unambiguous: no byte of one column can be read as part of the next. A number is a
//! column with its bytes in little-endian order, without trailing zeros.

use std::borrow::Cow;

use tenure_core::lease::LeaseId;

use crate::model::LeaseKey;

/// The value of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Column<'a> {
    Null,
    Number(u64),
    Text(Cow<'a, str>),
    Bytes(&'a [u8]),
    /// The bytes of lease ids, one after the other.
    Ids(&'a [LeaseId]),
}

impl From<u64> for Column<'_> {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl<'a> From<&'a str> for Column<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.into())
    }
}

impl<'a, T: Into<Self>> From<Option<T>> for Column<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// Appends columns.
pub(crate) fn put(to: &mut Vec<u8>, columns: &[Column<'_>]) {
    for column in columns {
        match column {
            Column::Null => put_varint(to, 0),
            Column::Number(number) => {
                let len = 8 - number.leading_zeros() as usize / 8;
                put_bytes(to, &number.to_le_bytes()[..len]);
            }
            Column::Text(text) => put_bytes(to, text.as_bytes()),
            Column::Bytes(bytes) => put_bytes(to, bytes),
            Column::Ids(ids) => {
                put_varint(to, 16 * ids.len() as u64 + 1);
                ids.iter()
                    .for_each(|id| to.extend_from_slice(&id.to_bytes()));
            }
        }
    }
}

/// Appends a column whose bytes `write` appends.
pub(crate) fn put_nested(to: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = to.len();
    write(to);
    let end = to.len();
    put_varint(to, (end - start) as u64 + 1);
    let len = to.len() - end;
    to[start..].rotate_right(len);
}

fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(to, bytes.len() as u64 + 1);
    to.extend_from_slice(bytes);
}

fn put_varint(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Reads columns in the order in which they were written. Bytes that are not the expected columns
/// cause an error.
#[derive(Clone, Debug)]
pub(crate) struct Columns<'a>(pub(crate) &'a [u8]);

/// The bytes are not the expected columns: the value of the named column is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DecodeError(pub(crate) &'static str);

impl<'a> Columns<'a> {
    pub(crate) fn optional_bytes(
        &mut self,
        name: &'static str,
    ) -> Result<Option<&'a [u8]>, DecodeError> {
        self.next().ok_or(DecodeError(name))
    }

    pub(crate) fn bytes(&mut self, name: &'static str) -> Result<&'a [u8], DecodeError> {
        self.next().flatten().ok_or(DecodeError(name))
    }

    pub(crate) fn optional_text(
        &mut self,
        name: &'static str,
    ) -> Result<Option<&'a str>, DecodeError> {
        let text = self.optional_bytes(name)?.map(str::from_utf8);
        text.transpose().map_err(|_| DecodeError(name))
    }

    pub(crate) fn text(&mut self, name: &'static str) -> Result<&'a str, DecodeError> {
        self.optional_text(name)?.ok_or(DecodeError(name))
    }

    pub(crate) fn optional_number(
        &mut self,
        name: &'static str,
    ) -> Result<Option<u64>, DecodeError> {
        let Some(bytes) = self.optional_bytes(name)? else {
            return Ok(None);
        };
        if bytes.len() > 8 || bytes.last() == Some(&0) {
            return Err(DecodeError(name));
        }
        let mut number = [0; 8];
        number[..bytes.len()].copy_from_slice(bytes);
        Ok(Some(u64::from_le_bytes(number)))
    }

    pub(crate) fn number(&mut self, name: &'static str) -> Result<u64, DecodeError> {
        self.optional_number(name)?.ok_or(DecodeError(name))
    }

    /// Reads the namespace and the name of a lease.
    pub(crate) fn key(&mut self) -> Result<LeaseKey, DecodeError> {
        let key = LeaseKey::of_path(self.text("namespace")?, self.text("lease")?);
        key.ok_or(DecodeError("name"))
    }

    /// Reads the lease ids of [`Column::Ids`].
    pub(crate) fn ids(&mut self, name: &'static str) -> Result<Vec<LeaseId>, DecodeError> {
        let (ids, rest) = self.bytes(name)?.as_chunks();
        let ids = ids.iter().copied().map(LeaseId::from_bytes).collect();
        rest.is_empty().then_some(ids).ok_or(DecodeError(name))
    }

    /// Returns whether no column is left.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks that no column is left.
    pub(crate) fn end(&self) -> Result<(), DecodeError> {
        self.is_empty().then_some(()).ok_or(DecodeError("end"))
    }

    fn next(&mut self) -> Option<Option<&'a [u8]>> {
        let Some(len) = self.varint()?.checked_sub(1) else {
            return Some(None);
        };
        let (column, rest) = self.0.split_at_checked(usize::try_from(len).ok()?)?;
        self.0 = rest;
        Some(Some(column))
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..63).step_by(7) {
            let byte = *self.0.split_off_first()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_read_as_they_were_put_and_other_bytes_are_refused() {
        const ERROR: DecodeError = DecodeError("x");
        let long = "x".repeat(200);
        let mut bytes = Vec::new();
        put(&mut bytes, &["ä".into(), Column::Null]);
        for number in [0, 7, 0x1_0000, u64::MAX] {
            put(&mut bytes, &[number.into()]);
        }
        put(&mut bytes, &[Column::from(None::<u64>)]);
        put_nested(&mut bytes, |to| put(to, &[long.as_str().into()]));
        put(&mut bytes, &["".into()]);
        let mut columns = Columns(&bytes);
        assert_eq!(columns.text("x"), Ok("ä"));
        assert_eq!(columns.optional_text("x"), Ok(None));
        for number in [0, 7, 0x1_0000, u64::MAX] {
            assert_eq!(columns.number("x"), Ok(number));
        }
        assert_eq!(columns.optional_number("x"), Ok(None));
        let mut nested = Columns(columns.bytes("x").unwrap());
        assert_eq!(
            (nested.text("x"), nested.end()),
            (Ok(long.as_str()), Ok(()))
        );
        assert!(columns.end().is_err());
        assert_eq!(columns.bytes("x"), Ok(b"".as_slice()));
        assert_eq!(columns.end(), Ok(()));
        assert_eq!(columns.optional_bytes("x"), Err(ERROR));

        assert_eq!(Columns(&bytes[..2]).text("x"), Err(ERROR), "cut off");
        assert_eq!(Columns(&[0]).bytes("x"), Err(ERROR), "null");
        assert_eq!(Columns(&[0xff; 9]).bytes("x"), Err(ERROR), "too long");
        assert_eq!(Columns(&[0xff; 20]).bytes("x"), Err(ERROR), "no length");
        assert_eq!(Columns(&[2, 0xff]).text("x"), Err(ERROR), "no text");
        assert_eq!(Columns(&[3, 7, 0]).number("x"), Err(ERROR), "two forms");
        assert_eq!(Columns(&[10; 11]).number("x"), Err(ERROR), "nine bytes");
    }
}
