//! The environment of commands.

use tokio::process::Command;

use crate::settings::CANDIDATE;

/// Removes this program's secrets from the environment of a command. Neither the command nor the
/// health command needs them, and a program that reads the key of a member can vote in its name.
pub(super) fn remove_secrets(command: &mut Command) {
    for secret in CANDIDATE.secret_variables() {
        command.env_remove(secret);
    }
}
