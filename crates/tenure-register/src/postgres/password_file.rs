//! The password file of libpq: lines of `host:port:database:user:password`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tracing::warn;

/// Returns the password in the first line for this host, port, database and user. As in libpq, a file
/// that other users can read has none.
pub(super) fn password(path: &Path, place: [&str; 4]) -> Option<String> {
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let path = path.display();
        warn!("{path} is not used, because other users can read it: run chmod 600 {path}");
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| password_in(line, place))
}

fn password_in(line: &str, place: [&str; 4]) -> Option<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(next) = characters.next() {
        let last = fields.len() - 1;
        match next {
            ':' if last < 4 => fields.push(String::new()),
            '\\' => fields[last].extend(characters.next()),
            next => fields[last].push(next),
        }
    }
    let password = fields.pop().filter(|_| fields.len() == 4)?;
    let mut pairs = fields.iter().zip(place);
    pairs
        .all(|(field, part)| field == "*" || field == part)
        .then_some(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_for_a_place_has_the_password() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "# a comment\n\nother:5432:d:u:wrong\na:5432:d:u:s\\:e\\\\c:ret\n*:*:*:u:any\n";
        fs::write(file.path(), text).unwrap();
        let found = |place| password(file.path(), place);
        assert_eq!(found(["a", "5432", "d", "u"]).unwrap(), "s:e\\c:ret");
        assert_eq!(found(["a", "5433", "d", "u"]).unwrap(), "any");
        assert_eq!(found(["a", "5432", "d", "v"]), None);
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(found(["a", "5432", "d", "u"]), None);
    }
}
