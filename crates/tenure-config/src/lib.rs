//! Settings from a TOML file, the environment and flags. Each value keeps its origin, so that an
//! error names the file and the line, the variable or the flag.
//!
//! A program defines its keys once, as the text of an example file ([`Keys`]). From this text follow
//! the known keys, their variables, types, defaults and allowed values, the secrets among them, and
//! their rows in the documentation. A [`Scope`] says which keys a program reads, and which others may
//! be in the same file.

mod error;
mod file_key;
mod keys;
mod link_free_path;
mod permissions;
mod scope;
mod setting;
mod settings;
mod unknown_variables;

#[cfg(test)]
mod tests;

pub use error::{ConfigError, Origin};
pub use file_key::FileKey;
pub use keys::{Key, Keys};
pub use link_free_path::link_free_path;
pub use permissions::{check_configuration, warn_of_folder, warn_of_secret};
pub use scope::Scope;
pub use settings::Settings;
pub use unknown_variables::warn_of_unknown_variables;
