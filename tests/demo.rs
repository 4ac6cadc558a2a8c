//! demo tests.
