//! Tests of the store's page in a real browser: each state of the page in both themes and two
//! widths, what operators do with it, lost connections, hostile names, the content security policy,
//! sessions, and the types of its scripts.
//!
//! They need Chromium with its driver, and Node with the packages of `package.json` in a folder that
//! `TENURE_BROWSER_NODE` names (`.ci/run` installs them). Without them these tests print a message
//! and pass; if `CI=true`, they fail. Screenshots of all states are kept in
//! `browser-screenshots` in the target folder.

// Callers pass literals of JSON.
#![allow(clippy::needless_pass_by_value)]

mod acting;
mod driver;
mod front;
mod harness;
mod hostile;
mod live;
mod load;
mod page;
mod policy;
mod signing_in;
mod states;
mod store;
mod types;
