//! The output of the demo while it runs.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::output;

/// Prints events, for people or for scripts.
#[derive(Debug)]
pub(super) struct Report {
    json: bool,
    start: Instant,
}

impl Report {
    pub(super) fn new(json: bool) -> Self {
        Self {
            json,
            start: Instant::now(),
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Prints an event: a sentence for people; a name and fields for scripts.
    pub(super) fn event(&self, name: &str, mut fields: Value, text: &str) -> anyhow::Result<()> {
        let elapsed = self.elapsed();
        if self.json {
            fields["event"] = name.into();
            fields["elapsed_ms"] = json!(elapsed.as_millis());
            output::line(fields)?;
        } else {
            output::line(format_args!("{:6.1}s  {text}", elapsed.as_secs_f64()))?;
        }
        Ok(())
    }

    /// Prints a line for people only.
    pub(super) fn text_only(&self, text: &str) -> anyhow::Result<()> {
        if !self.json {
            output::line(text)?;
        }
        Ok(())
    }
}
