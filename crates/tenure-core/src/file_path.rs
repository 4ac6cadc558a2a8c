//! The text of a path in a file, a variable or a flag.

/// A text that is not meant as a path to the file system as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilePathError {
    /// It begins with `~`. A service must not depend on the home directory of the user who starts
    /// it.
    #[error(
        "begins with ~, which only a shell replaces: write the whole path, or ./~ for a file with this name"
    )]
    Home,
    /// It is a URL.
    #[error("is a URL: write a path, such as /etc/tenure/name")]
    Url,
}

/// Checks that this text is a path. Without this check, `~/data` and `file:///data` would be new
/// directories below the current one.
///
/// # Errors
///
/// [`FilePathError`] if the text is a URL or begins with `~`.
pub fn check(text: &str) -> Result<(), FilePathError> {
    let is_scheme = |scheme: &str| scheme.eq_ignore_ascii_case("file");
    if text.starts_with('~') {
        Err(FilePathError::Home)
    } else if text.contains("://") || text.split_once(':').is_some_and(|(it, _)| is_scheme(it)) {
        Err(FilePathError::Url)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_no_home_directory_and_no_scheme() {
        for text in ["~", "~/data", "~backup/data"] {
            assert_eq!(check(text), Err(FilePathError::Home), "{text}");
        }
        for text in [
            "file:x",
            "file:///data",
            "FILE:/data",
            "https://store/ca.pem",
        ] {
            assert_eq!(check(text), Err(FilePathError::Url), "{text}");
        }
        for text in ["/data", "data", "./~data", "a~", "file", "./file:x", "c:x"] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }
}
