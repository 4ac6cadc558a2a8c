//! run tests.
