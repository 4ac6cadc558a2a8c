//! Columns as bytes: what a row's checksum is over, and how a row stands in a batch.
//!
//! Each column has its length before it, so that no text can slip from one into the next; one that is
//! null has a length that no column has.

const NULL: u64 = u64::MAX;

/// Puts a column behind those in `to`.
pub(super) fn put(to: &mut Vec<u8>, column: Option<&[u8]>) {
    let len = column.map_or(NULL, |bytes| bytes.len() as u64);
    to.extend_from_slice(&len.to_le_bytes());
    to.extend_from_slice(column.unwrap_or_default());
}

/// Puts a column with a number behind those in `to`.
pub(super) fn put_number(to: &mut Vec<u8>, number: Option<u64>) {
    let bytes = number.map(u64::to_le_bytes);
    put(to, bytes.as_ref().map(<[u8; 8]>::as_slice));
}

/// Takes columns out again, in the order in which they were put. What is not as it was put is an error.
#[derive(Debug)]
pub(super) struct Columns<'a>(pub(super) &'a [u8]);

/// The bytes are no columns, or other ones than were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotColumns;

impl<'a> Columns<'a> {
    pub(super) fn take(&mut self) -> Result<Option<&'a [u8]>, NotColumns> {
        let (len, rest) = self.0.split_first_chunk().ok_or(NotColumns)?;
        let len = u64::from_le_bytes(*len);
        if len == NULL {
            self.0 = rest;
            return Ok(None);
        }
        let len = usize::try_from(len).map_err(|_| NotColumns)?;
        let (column, rest) = rest.split_at_checked(len).ok_or(NotColumns)?;
        self.0 = rest;
        Ok(Some(column))
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], NotColumns> {
        self.take()?.ok_or(NotColumns)
    }

    pub(super) fn optional_text(&mut self) -> Result<Option<&'a str>, NotColumns> {
        let text = self.take()?.map(str::from_utf8);
        text.transpose().map_err(|_| NotColumns)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, NotColumns> {
        self.optional_text()?.ok_or(NotColumns)
    }

    pub(super) fn optional_number(&mut self) -> Result<Option<u64>, NotColumns> {
        let bytes = self.take()?.map(|bytes| bytes.try_into());
        let bytes = bytes.transpose().map_err(|_| NotColumns)?;
        Ok(bytes.map(u64::from_le_bytes))
    }

    pub(super) fn number(&mut self) -> Result<u64, NotColumns> {
        self.optional_number()?.ok_or(NotColumns)
    }

    /// There are no more.
    pub(super) fn end(&self) -> Result<(), NotColumns> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(NotColumns)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_come_back_as_they_were_put_and_nothing_else_does() {
        let mut bytes = Vec::new();
        put(&mut bytes, Some("ä".as_bytes()));
        put(&mut bytes, None);
        put_number(&mut bytes, Some(7));
        put(&mut bytes, Some(b""));
        let mut columns = Columns(&bytes);
        assert_eq!(columns.text(), Ok("ä"));
        assert_eq!(columns.optional_text(), Ok(None));
        assert_eq!(columns.number(), Ok(7));
        assert_eq!(columns.end(), Err(NotColumns));
        assert_eq!(columns.bytes(), Ok(b"".as_slice()));
        assert_eq!(columns.end(), Ok(()));
        assert_eq!(columns.take(), Err(NotColumns));

        assert_eq!(Columns(&bytes).number(), Err(NotColumns), "it is a text");
        let mut cut = Columns(&bytes[..9]);
        assert_eq!(cut.text(), Err(NotColumns));
        let mut null = Columns(&[0xff; 8]);
        assert_eq!(null.text(), Err(NotColumns));
        let mut far = Columns(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
        assert_eq!(far.bytes(), Err(NotColumns));
        let mut not_text = Columns(&[1, 0, 0, 0, 0, 0, 0, 0, 0xff]);
        assert_eq!(not_text.text(), Err(NotColumns));
    }
}
