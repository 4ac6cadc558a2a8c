//! command tests.
