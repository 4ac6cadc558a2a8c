//! JSON Schemas of the values that have a text of their own: names, ids and durations. The schemas
//! of the bodies come from their types.

use alloc::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::number::INFINITE;
use super::{DurationMs, Number};
use crate::candidate_id::MAX_CANDIDATE_ID_LEN;
use crate::lease::{LeaseId, Rules};
use crate::name::MAX_NAME_LEN;
use crate::time::millis;
use crate::{CandidateId, Epoch, Name};

/// Implements the trait for a type whose schema is small, so that it is written at each place of
/// use.
macro_rules! inline {
    ($($type:ident $schema:tt)*) => {$(
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

inline! {
    Name {
        "type": "string",
        "pattern": "^[A-Za-z0-9._-]+$",
        "minLength": 1,
        "maxLength": MAX_NAME_LEN,
        "not": { "enum": [".", ".."] },
    }
    CandidateId {
        "type": "string",
        // Visible ASCII.
        "pattern": "^[!-~]+$",
        "minLength": 1,
        "maxLength": MAX_CANDIDATE_ID_LEN,
    }
    // The nil UUID is refused, but no generator makes it.
    LeaseId {
        "type": "string",
        "format": "uuid",
    }
    Epoch {
        "type": "integer",
        "minimum": 1,
        "maximum": Epoch::MAX.get(),
    }
    Number {
        "type": "integer",
    }
}

impl JsonSchema for DurationMs {
    fn schema_name() -> Cow<'static, str> {
        "DurationMs".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let Rules {
            min_duration,
            max_duration,
            ..
        } = Rules::NATIVE;
        json_schema!({
            "description": "The duration of a lease: milliseconds, or no limit.",
            "oneOf": [
                {
                    "type": "integer",
                    "minimum": millis(min_duration),
                    "maximum": millis(max_duration),
                },
                // Generators of clients understand `enum` better than `const`.
                { "type": "string", "enum": [INFINITE] },
            ],
        })
    }
}
