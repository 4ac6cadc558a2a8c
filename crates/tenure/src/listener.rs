//! Parts of a listener that can be reached without a credential, such as one that shows the status of a
//! process.

pub use crate::browser_guard::guard;
pub use crate::peer_transport::{AcceptedStream, listen};
