//! Text of others, made safe to print.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use core::fmt::Write as _;

/// Returns whether this character is not shown as itself: a control character, a format character
/// such as U+202E, which reverses the text after it, or U+200B, which nobody sees, a line separator,
/// or a character that Unicode has not assigned. Blanks of other scripts are printable.
#[must_use]
pub fn is_unprintable(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    if matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}') {
        return true;
    }
    // The standard library knows the printable characters of Unicode, and escapes the others. After
    // another character it does not escape an accent.
    let mut bytes = *b"x\0\0\0\0";
    let length = 1 + c.encode_utf8(&mut bytes[1..]).len();
    let text = core::str::from_utf8(&bytes[..length]).unwrap_or_default();
    !c.is_whitespace() && text.escape_debug().nth(1) == Some('\\')
}

/// Replaces every unprintable character, including line feeds, by its escape in JSON, such as
/// `\u202e`. Text of another process can then neither control a terminal nor add a line.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    escape_if(text, is_unprintable)
}

/// Replaces the unprintable characters of a whole document, but for the ASCII control characters below
/// the blank, which are part of its format. JSON has the same meaning afterwards.
#[must_use]
pub fn escape_document(document: &str) -> Cow<'_, str> {
    escape_if(document, |c| c > ' ' && is_unprintable(c))
}

/// The text that replaces a password.
pub const HIDDEN_PASSWORD: &str = "***";

/// Returns a text without the password of an address in it, before its hosts or as a parameter. The
/// text may contain valid or invalid addresses. In case of doubt, more is hidden than necessary.
#[must_use]
pub fn without_passwords(text: &str) -> String {
    const PARAMETER: &str = "password";
    let mut shown = without_password_of_user(text);
    let mut ends = shown
        .match_indices(PARAMETER)
        .map(|(at, _)| at + PARAMETER.len());
    if let Some(end) = ends.find(|&end| shown[end..].trim_start().starts_with('=')) {
        shown.truncate(end);
        shown = shown + "=" + HIDDEN_PASSWORD;
    }
    shown
}

fn without_password_of_user(text: &str) -> String {
    let Some((before, host)) = text.rsplit_once('@') else {
        return text.into();
    };
    let user = before.find("://").map_or(0, |at| at + "://".len());
    match before[user..].split_once(':') {
        Some((name, _)) => format!("{}{name}:{HIDDEN_PASSWORD}@{host}", &before[..user]),
        None => text.into(),
    }
}

fn escape_if(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    let Some(first) = text.find(&is_escaped) else {
        return Cow::Borrowed(text);
    };
    let mut escaped = String::from(&text[..first]);
    for c in text[first..].chars() {
        match c {
            _ if !is_escaped(c) => escaped.push(c),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a string cannot fail.
                    let _ = write!(escaped, "\\u{unit:04x}");
                }
            }
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_people_write_is_printed_as_it_is() {
        for text in [
            "plain text \\ \"quoted\"",
            "e\u{301}a\u{308} नमस्ते עברית العربية",
            "a\u{a0}b\u{3000}c",
            "日本語 🙂",
        ] {
            assert_eq!(escape(text), text);
            assert_eq!(escape_document(text), text);
        }
    }

    #[test]
    fn what_is_not_shown_as_itself_is_escaped() {
        let bidi = ['\u{61c}', '\u{200e}', '\u{200f}'].into_iter();
        let bidi = bidi.chain('\u{202a}'..='\u{202e}');
        let bidi = bidi.chain('\u{2066}'..='\u{2069}');
        let format = [
            '\u{ad}', '\u{200b}', '\u{200c}', '\u{200d}', '\u{2060}', '\u{feff}',
        ];
        let separators = ['\u{2028}', '\u{2029}', '\u{85}', '\u{9b}'];
        let tags = ['\u{e0001}', '\u{e0041}'];
        for c in bidi.chain(format).chain(separators).chain(tags) {
            let text = String::from(c);
            assert!(escape(&text).is_ascii(), "{c:?}");
            assert!(escape_document(&text).is_ascii(), "{c:?}");
        }
        assert_eq!(escape("a\u{202e}b\n\u{1b}[0m"), "a\\u202eb\\n\\u001b[0m");
        assert_eq!(escape_document("a\u{202e}b\n"), "a\\u202eb\n");
    }

    #[test]
    fn an_escaped_document_in_json_has_the_same_meaning() {
        let value = "\u{202e}\u{e0041}\u{2028}é\n";
        let json = serde_json::to_string(value).unwrap();
        let escaped = escape_document(&json);
        assert_eq!(escaped, "\"\\u202e\\udb40\\udc41\\u2028é\\n\"");
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), value);
    }

    #[test]
    fn a_password_is_hidden_in_every_text_that_contains_one() {
        for (text, shown) in [
            ("http://host:7400", "http://host:7400"),
            ("http://host/a@b:c", "http://host/a@b:c"),
            ("http://user@host", "http://user@host"),
            ("http://user:secret@host", "http://user:***@host"),
            ("http://:secret@host/way", "http://:***@host/way"),
            ("http://user:se@cret@host", "http://user:***@host"),
            ("ftp://user:secret@host", "ftp://user:***@host"),
            ("http://user:secret@ho st", "http://user:***@ho st"),
            ("user:se/cret@host", "user:***@host"),
            ("http://user@ho st", "http://user@ho st"),
            ("1@5=http://host", "1@5=http://host"),
            ("1@5=http://user:secret@host", "1@5=http://user:***@host"),
            ("http://a,http://b:secret@c", "http://a,http:***@c"),
            ("http://a:one@b,http://c:two@d", "http://a:***@d"),
            ("http://a?password=one&b=two", "http://a?password=***"),
            (
                "http://a:one@b?sslpassword = two",
                "http://a:***@b?sslpassword=***",
            ),
            ("password_file=a", "password_file=a"),
            ("no address", "no address"),
        ] {
            assert_eq!(without_passwords(text), shown, "{text}");
        }
    }
}
