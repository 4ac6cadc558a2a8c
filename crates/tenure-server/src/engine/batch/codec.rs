//! Columns as bytes: what a row's checksum covers, and how a change is written in a batch.
//!
//! A column is its length plus one as a varint, and then its bytes; a null column is a zero. So no text can
//! slip from one column into the next. A number is a column with its bytes from the lowest to the last that
//! is not zero.

/// Appends a column.
pub(crate) fn put(to: &mut Vec<u8>, column: Option<&[u8]>) {
    put_varint(to, column.map_or(0, |bytes| bytes.len() as u64 + 1));
    to.extend_from_slice(column.unwrap_or_default());
}

/// Appends a column with a text.
pub(crate) fn put_text(to: &mut Vec<u8>, text: &str) {
    put(to, Some(text.as_bytes()));
}

/// Appends a column with a number.
pub(crate) fn put_number(to: &mut Vec<u8>, number: Option<u64>) {
    let Some(number) = number else {
        return put(to, None);
    };
    let len = 8 - number.leading_zeros() as usize / 8;
    put(to, Some(&number.to_le_bytes()[..len]));
}

/// Appends a column that `write` writes.
pub(crate) fn put_nested(to: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = to.len();
    write(to);
    let end = to.len();
    put_varint(to, (end - start) as u64 + 1);
    let len = to.len() - end;
    to[start..].rotate_right(len);
}

fn put_varint(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Reads columns in the order in which they were put. Other bytes are an error.
#[derive(Clone, Debug)]
pub(crate) struct Columns<'a>(pub(crate) &'a [u8]);

/// The bytes are not the columns that the caller asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DecodeError;

impl<'a> Columns<'a> {
    pub(crate) fn optional_bytes(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        let Some(len) = self.varint()?.checked_sub(1) else {
            return Ok(None);
        };
        let len = usize::try_from(len).map_err(|_| DecodeError)?;
        let (column, rest) = self.0.split_at_checked(len).ok_or(DecodeError)?;
        self.0 = rest;
        Ok(Some(column))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        self.optional_bytes()?.ok_or(DecodeError)
    }

    pub(crate) fn optional_text(&mut self) -> Result<Option<&'a str>, DecodeError> {
        let text = self.optional_bytes()?.map(str::from_utf8);
        text.transpose().map_err(|_| DecodeError)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, DecodeError> {
        self.optional_text()?.ok_or(DecodeError)
    }

    pub(crate) fn optional_number(&mut self) -> Result<Option<u64>, DecodeError> {
        let Some(bytes) = self.optional_bytes()? else {
            return Ok(None);
        };
        if bytes.len() > 8 || bytes.last() == Some(&0) {
            return Err(DecodeError);
        }
        let mut number = [0; 8];
        number[..bytes.len()].copy_from_slice(bytes);
        Ok(Some(u64::from_le_bytes(number)))
    }

    pub(crate) fn number(&mut self) -> Result<u64, DecodeError> {
        self.optional_number()?.ok_or(DecodeError)
    }

    /// Whether no column is left.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// No column is left.
    pub(crate) const fn end(&self) -> Result<(), DecodeError> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(DecodeError)
        }
    }

    fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut number = 0;
        for shift in (0..63).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(DecodeError)?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(DecodeError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_read_as_they_were_put_and_other_bytes_are_refused() {
        let long = "x".repeat(200);
        let mut bytes = Vec::new();
        put_text(&mut bytes, "ä");
        put(&mut bytes, None);
        for number in [0, 7, 0x1_0000, u64::MAX] {
            put_number(&mut bytes, Some(number));
        }
        put_number(&mut bytes, None);
        put_nested(&mut bytes, |to| put_text(to, &long));
        put_text(&mut bytes, "");
        let mut columns = Columns(&bytes);
        assert_eq!(columns.text(), Ok("ä"));
        assert_eq!(columns.optional_text(), Ok(None));
        for number in [0, 7, 0x1_0000, u64::MAX] {
            assert_eq!(columns.number(), Ok(number));
        }
        assert_eq!(columns.optional_number(), Ok(None));
        let mut nested = Columns(columns.bytes().unwrap());
        assert_eq!((nested.text(), nested.end()), (Ok(long.as_str()), Ok(())));
        assert_eq!(columns.end(), Err(DecodeError));
        assert_eq!(columns.bytes(), Ok(b"".as_slice()));
        assert_eq!(columns.end(), Ok(()));
        assert_eq!(columns.optional_bytes(), Err(DecodeError));

        assert_eq!(Columns(&bytes[..2]).text(), Err(DecodeError), "cut off");
        assert_eq!(Columns(&[0]).bytes(), Err(DecodeError), "null");
        assert_eq!(Columns(&[0xff; 9]).bytes(), Err(DecodeError), "too long");
        assert_eq!(Columns(&[0xff; 20]).bytes(), Err(DecodeError), "no length");
        assert_eq!(Columns(&[2, 0xff]).text(), Err(DecodeError), "no text");
        assert_eq!(Columns(&[3, 7, 0]).number(), Err(DecodeError), "two forms");
        assert_eq!(Columns(&[10; 11]).number(), Err(DecodeError), "nine bytes");
    }
}
