//! `tenure config example`.

use clap::Args;
use tenure::__cli::EXAMPLE;

use crate::output;

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
    use crate::settings::serve::{self, StoreSettings};
    use std::io::Write;
    use tenure::__cli::{Scope, Settings};

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
            let of_file = |scope| Settings::of_file(scope, file.path()).unwrap();
            (of_file(Scope::Candidate), of_file(serve::SCOPE))
        });
        let [(candidate, store), (full_candidate, full_store)] = rows;
        for settings in [&full_candidate, &full_store] {
            for key in settings.keys() {
                assert!(settings.origin(key).is_some(), "{key} is missing");
            }
        }
        assert!(candidate.origin("election").is_some());
        let values = |store| StoreSettings::new(store).unwrap().values();
        assert_eq!(values(&store), values(&full_store));
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
