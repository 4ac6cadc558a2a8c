//! Tests of texts that are read completely, or refused with the line.

use alloc::string::{String, ToString};

use super::*;

/// A block whose content does not matter.
fn block(label: &str) -> String {
    let line = "MIIB".repeat(16);
    format!("-----BEGIN {label}-----\n{line}\n{line}\nAQID\n-----END {label}-----\n")
}

/// Returns what a reader finds in a text: the number of blocks, or the error.
fn found(read: fn(&[u8]) -> Result<Vec<Block<'_>>, PemError>, text: &str) -> String {
    match read(text.as_bytes()) {
        Ok(blocks) => blocks.len().to_string(),
        Err(error) => error.to_string(),
    }
}

/// The texts of two certificates in all states, with the beginning of the result: the number of
/// certificates, or the line of the error and a part of its reason.
fn texts() -> Vec<(&'static str, String, &'static str, &'static str)> {
    let one = block(CERTIFICATE);
    let mark = "\u{feff}";
    let two = format!("{one}{one}");
    let lines = one.lines().count();
    assert_eq!(lines, 5);
    Vec::from([
        ("plain", two.clone(), "2", ""),
        ("mark at the start", format!("{mark}{two}"), "2", ""),
        ("mark in the middle", format!("{one}{mark}{one}"), "2", ""),
        ("two marks", format!("{mark}{mark}{two}"), "2", ""),
        ("CR LF", two.replace('\n', "\r\n"), "2", ""),
        ("CR", two.replace('\n', "\r"), "2", ""),
        (
            "blanks at the end of lines",
            two.replace('\n', " \t\n"),
            "2",
            "",
        ),
        ("no newline at the end", two.trim_end().into(), "2", ""),
        (
            "comments",
            format!("# the end of the list begins\nsubject=CN = a\n{one}\n=====\n-----\n{one}"),
            "2",
            "",
        ),
        (
            "blank before BEGIN",
            format!("{one} {one}"),
            "line 6: ",
            "malformed",
        ),
        (
            "tab before BEGIN",
            format!("{one}\t{one}"),
            "line 6: ",
            "malformed",
        ),
        (
            "no break space",
            format!("{one}\u{a0}{one}"),
            "line 6: ",
            "malformed",
        ),
        (
            "trusted certificate",
            format!("{one}{}", block("TRUSTED CERTIFICATE")),
            "line 6: ",
            "TRUSTED CERTIFICATE",
        ),
        (
            "other label",
            format!("{one}{}", block("X509 CRL")),
            "line 6: ",
            "X509 CRL",
        ),
        (
            "misspelled label",
            format!("{one}{}", block("CERTIFICAT")),
            "line 6: ",
            "CERTIFICAT",
        ),
        (
            "lower case",
            format!("{one}{}", one.to_lowercase()),
            "line 6: ",
            "malformed",
        ),
        (
            "a dash too few",
            two.replacen("-----BEGIN", "----BEGIN", 1),
            "line 1: ",
            "malformed",
        ),
        (
            "long dashes",
            format!("{one}{}", one.replace("-----", "—")),
            "line 6: ",
            "malformed",
        ),
        (
            "no space",
            format!("{one}{}", one.replace("BEGIN ", "BEGIN")),
            "line 6: ",
            "malformed",
        ),
        (
            "BEGIN lost",
            format!("{one}{}", &one[28..]),
            "line 6: ",
            "base64 without",
        ),
        (
            "BEGIN and END lost",
            format!("{one}{}", &one[28..one.len() - 26]),
            "line 6: ",
            "base64 without",
        ),
        (
            "END lost",
            two.replacen("-----END CERTIFICATE-----\n", "", 1),
            "line 5: ",
            "block of line 1 has no line -----END",
        ),
        (
            "no newline between blocks",
            two.replacen("-----\n-----BEGIN", "----------BEGIN", 1),
            "line 5: ",
            "no line -----END",
        ),
        (
            "truncated",
            two[..two.len() - 40].into(),
            "line 6: ",
            "no line -----END",
        ),
        (
            "cut in BEGIN",
            format!("{one}-----BEGIN CERT"),
            "line 6: ",
            "malformed",
        ),
        (
            "empty block",
            one.replace("MIIB", "").replace("AQID", ""),
            "line 1: ",
            "base64",
        ),
        (
            "not base64",
            format!("{one}{}", one.replace("AQID", "AQ*D")),
            "line 6: ",
            "base64",
        ),
        (
            "a digit lost",
            format!("{one}{}", one.replace("AQID", "AQI")),
            "line 6: ",
            "base64",
        ),
        (
            "escaped newlines",
            two.replace('\n', "\\n"),
            "line 1: ",
            "malformed",
        ),
        (
            "empty",
            String::new(),
            "there is no certificate",
            "BEGIN CERTIFICATE",
        ),
        (
            "other text",
            "hello\n".into(),
            "there is no certificate",
            "BEGIN CERTIFICATE",
        ),
    ])
}

#[test]
fn no_certificate_is_dropped_from_a_list_of_authorities_or_a_chain() {
    for (name, text, start, part) in texts() {
        for read in [authorities, chain] {
            let found = found(read, &text);
            assert!(found.starts_with(start), "{name}: {found}");
            assert!(found.contains(part), "{name}: {found}");
        }
    }
    for text in [&b"\xff\xfe-\0-\0"[..], b"\xfe\xff\0-"] {
        let error = authorities(text).unwrap_err().to_string();
        assert!(error.contains("UTF-16"), "{error}");
    }
}

#[test]
fn no_block_is_dropped_from_a_file_with_a_key() {
    let one = block(CERTIFICATE);
    for label in KEYS {
        let text = format!("\u{feff}{one}{}\u{feff}{}", block(PARAMETERS), block(label));
        assert_eq!(key(text.as_bytes()).unwrap().label, label);
        assert_eq!(found(chain, &text), "1");
        // A list of authorities contains no key.
        assert!(found(authorities, &text).contains("line 6: a block EC PARAMETERS"));
        // The other damages are those of certificates: one reader finds them all.
        let indented = format!("{one} {}", block(label));
        let error = key(indented.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("line 6: "), "{error}");
    }
    let pkcs8 = block("PRIVATE KEY");
    let header = "KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n";
    let with_header = block("RSA PRIVATE KEY").replacen("KEY-----\n", header, 1);
    for (text, part) in [
        (one.clone(), "there is no private key"),
        (format!("{pkcs8}{pkcs8}"), "there are 2 keys"),
        (block(ENCRYPTED), "decrypt it"),
        (with_header, "decrypt it"),
        (
            block("OPENSSH PRIVATE KEY"),
            "line 1: a block OPENSSH PRIVATE KEY",
        ),
        (block("DSA PRIVATE KEY"), "line 1: a block DSA PRIVATE KEY"),
        (
            format!("{pkcs8}{}", block("DH PARAMETERS")),
            "line 6: a block DH PARAMETERS",
        ),
    ] {
        let error = key(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
        assert!(!error.contains("MIIB"), "{error}");
    }
}

#[test]
fn a_block_has_its_content_its_line_and_its_text() {
    let text = "-----BEGIN CERTIFICATE-----\nAAEC\nAw==\n-----END CERTIFICATE-----";
    let before = format!("# a\r\n\u{feff}{text}\n");
    let blocks = authorities(before.as_bytes()).unwrap();
    assert_eq!(blocks[0].der, [0, 1, 2, 3]);
    assert_eq!((blocks[0].line, blocks[0].text), (2, text.as_bytes()));
    assert!(!format!("{blocks:?}").contains("AAEC"));
    for (base64, bytes) in [("AAEC", &[0, 1, 2][..]), ("AAE=", &[0, 1]), ("AA==", &[0])] {
        assert_eq!(decoded(base64.as_bytes()).unwrap(), bytes);
    }
    for wrong in ["", "A", "AA", "AAA", "A===", "AA=A", "====", "AA-_"] {
        assert_eq!(decoded(wrong.as_bytes()), None, "{wrong}");
    }
}
