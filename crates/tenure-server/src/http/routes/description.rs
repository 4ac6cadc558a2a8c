//! The columns of the table that describe a route to its clients.

use axum::http::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use tenure_core::wire::Code;

use super::{Handler, Route};
use crate::access::Right;
use crate::http::authorize::TargetOf;

/// Writes the schema of a type, and adds the schemas that it refers to.
pub(in crate::http) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The group of a route in the description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Tag {
    Store,
    Access,
    Leases,
    Events,
    Page,
}

impl Tag {
    pub(in crate::http) const ALL: [Self; 5] = [
        Self::Store,
        Self::Access,
        Self::Leases,
        Self::Events,
        Self::Page,
    ];

    pub(in crate::http) const fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Access => "access",
            Self::Leases => "leases",
            Self::Events => "events",
            Self::Page => "page",
        }
    }

    pub(in crate::http) const fn description(self) -> &'static str {
        match self {
            Self::Store => "The store itself: probes, limits, this description.",
            Self::Access => "Callers and their rights.",
            Self::Leases => "Leases: their holders, their terms, and the operations on them.",
            Self::Events => "Streams of server-sent events.",
            Self::Page => "The page for browsers, and its files. They contain no data.",
        }
    }
}

/// The time that the answer to a request takes, and the limit of such answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Kind {
    /// The store answers as soon as it can.
    Immediate,
    /// Like `Immediate`, for a check of liveness or readiness.
    Probe,
    /// Like `Immediate`, for a renewal of one lease.
    Renewal,
    /// The answer may be large: the number of such answers at a time is limited.
    Large,
    /// Like `Large`, but the request waits for its turn and is not refused, because it keeps leases.
    Renewals,
    /// The store may wait for a change, as long as the request says.
    LongPoll,
    /// The answer lasts until the client or the store ends it.
    Stream,
}

/// A parameter of a query. The parser of the query and the description read the same constants.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct Parameter {
    pub(in crate::http) name: &'static str,
    pub(in crate::http) description: &'static str,
    pub(in crate::http) schema: fn() -> Schema,
}

/// The JSON body of a request.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct Body {
    pub(in crate::http) schema: SchemaOf,
    pub(in crate::http) is_required: bool,
    /// The maximum size, if it is not that of the store's limits.
    pub(in crate::http) max_bytes: Option<usize>,
}

/// An answer to a request that succeeds. The codes of a route describe its refusals.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct Answer {
    pub(in crate::http) status: u16,
    pub(in crate::http) content: Content,
}

#[derive(Clone, Copy, Debug)]
pub(in crate::http) enum Content {
    Json(SchemaOf),
    Text,
    EventStream,
    /// A file of one of these media types.
    File(&'static [&'static str]),
    Nothing,
}

pub(super) const fn required<T: JsonSchema>() -> Body {
    Body {
        schema: SchemaGenerator::subschema_for::<T>,
        is_required: true,
        max_bytes: None,
    }
}

pub(super) const fn required_up_to<T: JsonSchema>(max_bytes: usize) -> Body {
    Body {
        schema: SchemaGenerator::subschema_for::<T>,
        is_required: true,
        max_bytes: Some(max_bytes),
    }
}

pub(super) const fn optional<T: JsonSchema>() -> Body {
    Body {
        schema: SchemaGenerator::subschema_for::<T>,
        is_required: false,
        max_bytes: None,
    }
}

pub(super) const fn json<T: JsonSchema>(status: u16) -> Answer {
    Answer {
        status,
        content: Content::Json(SchemaGenerator::subschema_for::<T>),
    }
}

pub(super) const fn text(status: u16) -> Answer {
    Answer {
        status,
        content: Content::Text,
    }
}

pub(super) const fn event_stream(status: u16) -> Answer {
    Answer {
        status,
        content: Content::EventStream,
    }
}

pub(super) const fn file(media_types: &'static [&'static str]) -> Answer {
    Answer {
        status: 200,
        content: Content::File(media_types),
    }
}

pub(super) const fn nothing(status: u16) -> Answer {
    Answer {
        status,
        content: Content::Nothing,
    }
}

/// The beginning of a row of the table.
pub(super) struct Named {
    label: &'static str,
    tag: Tag,
    description: &'static str,
}

pub(super) const fn named(label: &'static str, tag: Tag, description: &'static str) -> Named {
    Named {
        label,
        tag,
        description,
    }
}

impl Named {
    /// Returns the route, with those of its columns that every route has.
    pub(super) const fn at(
        self,
        method: Method,
        path: &'static str,
        right: Right,
        target: TargetOf,
        handler: Handler,
    ) -> Route {
        Route {
            method,
            path,
            label: self.label,
            description: self.description,
            right,
            target,
            handler,
            kind: Kind::Immediate,
            query: &[],
            body: None,
            tag: self.tag,
            answers: &[],
            codes: &[],
        }
    }
}

impl Route {
    pub(super) const fn kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    pub(super) const fn query(mut self, query: &'static [Parameter]) -> Self {
        self.query = query;
        self
    }

    pub(super) const fn body(mut self, body: Body) -> Self {
        self.body = Some(body);
        self
    }

    pub(super) const fn answers(mut self, answers: &'static [Answer]) -> Self {
        self.answers = answers;
        self
    }

    pub(super) const fn codes(mut self, codes: &'static [Code]) -> Self {
        self.codes = codes;
        self
    }
}
