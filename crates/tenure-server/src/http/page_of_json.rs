//! Answers that are an array: they are written item by item, up to the size of a page.

use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tenure_core::wire::{Code, Problem};

use super::body::json_response;

/// The maximum size of a page, in bytes, apart from its first item. A page with larger items has at
/// least one of them.
const PAGE_BYTES: usize = 256 * 1024;

/// The number of items that are written before other requests have a turn: less than half a
/// millisecond with the largest metadata.
pub(super) const TURN: usize = 50;

/// An object with one array, as JSON.
pub(super) struct PageOfJson {
    json: Vec<u8>,
    most: usize,
    items: usize,
}

/// A complete answer as JSON.
pub(super) struct WrittenJson(Vec<u8>);

impl PageOfJson {
    /// Begins an object with this field.
    pub(super) fn begin(field: &str) -> Self {
        Self {
            json: format!("{{\"{field}\":[").into_bytes(),
            most: PAGE_BYTES,
            items: 0,
        }
    }

    /// Like [`begin`](Self::begin), for an answer that must have all items.
    pub(super) fn begin_whole(field: &str) -> Self {
        Self {
            most: usize::MAX,
            ..Self::begin(field)
        }
    }

    /// Returns the number of items.
    pub(super) const fn len(&self) -> usize {
        self.items
    }

    /// Writes one item, if the page has room for it. Returns whether it has.
    pub(super) async fn push(&mut self, item: &impl Serialize) -> Result<bool, Problem> {
        let before = self.json.len();
        if self.items > 0 {
            self.json.push(b',');
        }
        serde_json::to_writer(&mut self.json, item)
            .map_err(|error| Problem::new(Code::Internal, error.to_string()))?;
        if self.json.len() > self.most && self.items > 0 {
            self.json.truncate(before);
            return Ok(false);
        }
        self.items += 1;
        if self.items.is_multiple_of(TURN) {
            tokio::task::yield_now().await;
        }
        Ok(true)
    }

    /// Ends an object without other fields.
    pub(super) fn end(mut self) -> WrittenJson {
        self.json.extend_from_slice(b"]}");
        WrittenJson(self.json)
    }

    /// Ends an object with the field `next`, which requests the next page.
    pub(super) fn end_with_next(
        mut self,
        next: Option<&impl Serialize>,
    ) -> Result<WrittenJson, Problem> {
        self.json.extend_from_slice(b"],\"next\":");
        serde_json::to_writer(&mut self.json, &next)
            .map_err(|error| Problem::new(Code::Internal, error.to_string()))?;
        self.json.push(b'}');
        Ok(WrittenJson(self.json))
    }
}

impl IntoResponse for WrittenJson {
    fn into_response(mut self) -> Response {
        // A client may take the answer slowly.
        self.0.shrink_to_fit();
        json_response(self.0)
    }
}
