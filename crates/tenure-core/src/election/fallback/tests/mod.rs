//! Tests of one machine, and of all orders of events in a group with a store.

mod alone;
mod model;
