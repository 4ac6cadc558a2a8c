//! The settings of metrics.

use crate::model::LeaseKey;

/// The number of leases that have series by default. Each has six series, and a scrape of some
/// thousand series is small.
const MAX_LEASES: usize = 200;

/// The leases that have series of their own, and other settings of metrics.
///
/// Either all leases that match the patterns have series, or, if they are more than the maximum,
/// none of them: if some had series, alarms would depend on a choice that changes.
#[derive(Clone, Debug)]
pub struct MetricsConfig {
    max_leases: usize,
    patterns: Vec<Pattern>,
    expected: Vec<LeaseKey>,
    dropped_log_lines: Option<fn() -> u64>,
    counts_requests: bool,
}

/// A setting is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} {reason}")]
#[non_exhaustive]
pub struct MetricsConfigError {
    /// The value.
    pub value: String,
    /// The reason, and a valid alternative.
    pub reason: &'static str,
}

/// A name `namespace/lease`, or its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    text: Box<str>,
    is_prefix: bool,
}

impl Default for MetricsConfig {
    /// Gives series to all leases, up to 200.
    fn default() -> Self {
        let all = Pattern {
            text: "".into(),
            is_prefix: true,
        };
        Self {
            max_leases: MAX_LEASES,
            patterns: vec![all],
            expected: Vec::new(),
            dropped_log_lines: None,
            counts_requests: true,
        }
    }
}

impl MetricsConfig {
    /// Sets the maximum number of leases with series.
    #[must_use]
    pub fn with_max_leases(self, max_leases: usize) -> Self {
        Self { max_leases, ..self }
    }

    /// Sets the leases that have series: names `namespace/lease`, or beginnings of names with a `*`
    /// at the end.
    ///
    /// # Errors
    ///
    /// A `*` that is not at the end, or a text that cannot match a name.
    pub fn with_leases<'a>(
        self,
        patterns: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, MetricsConfigError> {
        let patterns = patterns.into_iter().map(Pattern::parse);
        Ok(Self {
            patterns: patterns.collect::<Result<_, _>>()?,
            ..self
        })
    }

    /// Sets the leases that must always be held. They have series even if there are too many
    /// leases, and before they are acquired for the first time.
    ///
    /// # Errors
    ///
    /// A text that is not a name `namespace/lease`.
    pub fn with_expected<'a>(
        self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, MetricsConfigError> {
        let keys = names.into_iter().map(|name| {
            let key = name
                .split_once('/')
                .and_then(|(namespace, lease)| LeaseKey::of_path(namespace, lease));
            key.ok_or_else(|| MetricsConfigError {
                value: name.into(),
                reason: "is not the name of a lease; write namespace/name, such as billing/nightly",
            })
        });
        let mut expected = keys.collect::<Result<Vec<_>, _>>()?;
        expected.sort_unstable();
        expected.dedup();
        Ok(Self { expected, ..self })
    }

    /// Sets the function that returns the number of log lines that the program has dropped.
    #[must_use]
    pub fn with_dropped_log_lines(self, dropped: fn() -> u64) -> Self {
        Self {
            dropped_log_lines: Some(dropped),
            ..self
        }
    }

    /// Does not count requests, so that a benchmark can measure the cost of the counters.
    #[doc(hidden)]
    #[must_use]
    pub fn without_requests(self) -> Self {
        Self {
            counts_requests: false,
            ..self
        }
    }

    pub(crate) const fn counts_requests(&self) -> bool {
        self.counts_requests
    }

    pub(crate) const fn max_leases(&self) -> usize {
        self.max_leases
    }

    pub(crate) fn expected(&self) -> &[LeaseKey] {
        &self.expected
    }

    pub(crate) fn dropped_log_lines(&self) -> u64 {
        self.dropped_log_lines.map_or(0, |dropped| dropped())
    }

    /// Returns whether this lease matches a pattern.
    pub(crate) fn matches(&self, key: &LeaseKey) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches(key))
    }
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, MetricsConfigError> {
        let wrong = |reason| MetricsConfigError {
            value: text.into(),
            reason,
        };
        let (start, is_prefix) = match text.strip_suffix('*') {
            Some(start) => (start, true),
            None => (text, false),
        };
        if start.contains('*') {
            return Err(wrong(
                "has a * that is not at its end; write a name or the beginning of names, such as \
                 billing/*",
            ));
        }
        let is_name = || {
            let names = start.split_once('/');
            names.is_some_and(|(namespace, lease)| LeaseKey::of_path(namespace, lease).is_some())
        };
        if !is_prefix && !is_name() {
            return Err(wrong(
                "is not the name of a lease; write namespace/name, or the beginning of names with a \
                 * at its end, such as billing/*",
            ));
        }
        Ok(Self {
            text: start.into(),
            is_prefix,
        })
    }

    fn matches(&self, key: &LeaseKey) -> bool {
        match self.is_prefix {
            true => key.as_str().starts_with(&*self.text),
            false => key.as_str() == &*self.text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_name_or_the_beginning_of_names() {
        let config = |patterns: &[&str]| {
            let config = MetricsConfig::default();
            config.with_leases(patterns.iter().copied())
        };
        let matches = |pattern: &str, name: &str| {
            let config = config(&[pattern]).unwrap();
            config.matches(&LeaseKey::of_text(name))
        };
        assert!(matches("*", "a/b") && matches("a/b", "a/b") && matches("a/*", "a/b"));
        assert!(matches("a/b*", "a/bc") && matches("a*", "ab/c"));
        assert!(!matches("a/b", "a/bc") && !matches("a/*", "ab/c"));
        assert!(!config(&[]).unwrap().matches(&LeaseKey::of_text("a/b")));
        for wrong in ["", "a", "a/", "/b", "a/b/c", "*/b", "a/*b", "**"] {
            assert!(config(&["*", wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_expected_lease_is_a_name() {
        let config = |names: &[&str]| {
            let config = MetricsConfig::default();
            config.with_expected(names.iter().copied())
        };
        let two = config(&["b/x", "a/x", "b/x"]).unwrap();
        assert_eq!(two.expected().len(), 2);
        assert_eq!(two.expected()[1], LeaseKey::of_text("b/x"));
        for wrong in ["", "a", "a/*", "a/b/c"] {
            let error = config(&[wrong]).unwrap_err();
            assert!(error.to_string().contains("billing/nightly"), "{error}");
        }
    }
}
