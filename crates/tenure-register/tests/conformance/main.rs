//! The checks that each home must pass, whatever keeps its values.

mod checks;
mod folder;
mod memory;
mod mistakes;
