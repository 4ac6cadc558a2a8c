//! `tenure config example`.

use clap::Args;

use crate::output;

/// Every key with its default; a valid configuration itself.
const EXAMPLE: &str = include_str!("example.toml");

/// Print a commented file with every key and its default
#[derive(Debug, Args)]
pub(super) struct Example;

impl Example {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        output::line(EXAMPLE.trim_end())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::effective;
    use super::*;
    use crate::settings::serve;
    use std::io::Write;

    /// The example, and the example with every key that is commented out.
    fn files() -> [String; 2] {
        let uncommented = EXAMPLE.lines().map(|line| {
            let key = line.strip_prefix('#').filter(|rest| !rest.starts_with(' '));
            key.unwrap_or(line)
        });
        let all = uncommented.collect::<Vec<_>>().join("\n");
        [EXAMPLE.to_owned(), all]
    }

    #[test]
    fn the_example_is_valid_and_has_every_key_with_its_default() {
        let rows = files().map(|text| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            let mut candidate = tenure::__cli::settings();
            tenure::__cli::read_file(&mut candidate, file.path()).unwrap();
            assert!(candidate.origin("election").is_some());
            (candidate, serve::TABLE.read_file(file.path()).unwrap())
        });
        let [(candidate, store), (full_candidate, full_store)] = rows;
        for settings in [&full_candidate, &full_store] {
            for key in settings.keys() {
                assert!(settings.origin(key).is_some(), "{key} is missing");
            }
        }
        assert_eq!(
            effective::values(&effective::store(&store).unwrap()),
            effective::values(&effective::store(&full_store).unwrap())
        );
        let without = |settings| {
            let mut values = effective::values(&effective::candidate(settings).unwrap());
            for key in ["candidate", "progress_deadline", "metadata"] {
                values.remove(key).unwrap();
            }
            // Keys of one strategy have no default, or one that follows from others.
            values.retain(|key, _| !key.contains('.'));
            values
        };
        assert_eq!(without(&candidate), without(&full_candidate));
    }
}
