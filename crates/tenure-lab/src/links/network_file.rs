//! Networks in text files.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::{LinkNetwork, LinkState, NetworkLink};
use super::graph_error::GraphError;

/// The most links of a file.
const MOST_FILE_LINKS: usize = 100_000;

impl LinkNetwork {
    /// Reads a network from text: on each line the numbers of two nodes with a link. A third word
    /// marks a faulty link: `dead`, or `one-way` for a link that delivers from the first node to the
    /// second only. `#` begins a comment. The numbers are the identifiers.
    ///
    /// # Errors
    ///
    /// [`GraphError::Line`] names the first wrong line.
    pub fn parse(text: &str) -> Result<Self, GraphError> {
        let mut ids: Vec<u32> = Vec::new();
        let mut places = BTreeMap::new();
        let mut links = Vec::new();
        let mut linked = BTreeSet::new();
        for (number, line) in text.lines().enumerate() {
            let wrong = |error: String| GraphError::Line {
                line: number + 1,
                error,
            };
            let words = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = words.split_whitespace().collect();
            let (names, state) = match words[..] {
                [] => continue,
                [one, other] => ([one, other], LinkState::Works),
                [one, other, "dead"] => ([one, other], LinkState::Dead),
                [one, other, "one-way"] => ([one, other], LinkState::OneWay),
                [_, _, word] => {
                    let error = format!("{word:?} is no state of a link; use dead or one-way");
                    return Err(wrong(error));
                }
                _ => {
                    let error = format!("{line:?} needs two numbers of nodes, such as 1 2");
                    return Err(wrong(error));
                }
            };
            let mut ends = [0; 2];
            for (end, name) in ends.iter_mut().zip(names) {
                let id = name.parse::<u32>().ok().filter(|id| *id > 0);
                let Some(id) = id else {
                    let error = format!("{name:?} is no number of a node; use 1 to {}", u32::MAX);
                    return Err(wrong(error));
                };
                *end = *places.entry(id).or_insert_with(|| {
                    ids.push(id);
                    ids.len() as u32 - 1
                });
            }
            let [one, other] = ends;
            if one == other || !linked.insert((one.min(other), one.max(other))) {
                let error = format!("{} {} is a loop or a second link", names[0], names[1]);
                return Err(wrong(error));
            }
            links.push(NetworkLink { one, other, state });
            if links.len() > MOST_FILE_LINKS || ids.len() > usize::from(u16::MAX) {
                return Err(wrong(format!(
                    "a file has at most {MOST_FILE_LINKS} links and {} nodes",
                    u16::MAX
                )));
            }
        }
        if ids.is_empty() {
            let error = "there is no link; each line needs two numbers of nodes, such as 1 2";
            return Err(GraphError::Line {
                line: 1,
                error: error.into(),
            });
        }
        Ok(Self::of_links(ids, links))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_the_links_and_those_that_are_broken() {
        let text = "# two sites\n4 5\n5 9 dead\n9 4 one-way # to 4\n\n";
        let network = LinkNetwork::parse(text).unwrap();
        assert_eq!(network.ids(), [4, 5, 9]);
        assert_eq!((network.faulty(), network.largest_part()), (2, 2));
        for (text, error) in [
            ("", "line 1: there is no link"),
            ("1 2\n2 x", "line 2: \"x\" is no number of a node"),
            ("1 2 slow", "use dead or one-way"),
            ("1 2\n2 1", "line 2: 2 1 is a loop or a second link"),
            ("1", "needs two numbers of nodes"),
        ] {
            let found = LinkNetwork::parse(text).unwrap_err().to_string();
            assert!(found.contains(error), "{found}");
        }
    }
}
