//! library tests.
