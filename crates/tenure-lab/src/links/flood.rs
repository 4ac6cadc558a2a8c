//! Flooding the greatest identifier.

use std::collections::VecDeque;

use super::forest::{CoreId, Port};
use super::stage::LinkProcess;

/// A process that passes on each identifier that is greater than all before. It never learns
/// whether a greater one is still on its way, so it never knows that the election is over.
#[derive(Debug)]
pub(super) struct Flooder {
    id: CoreId,
    ports: u16,
    pub(super) greatest: Option<CoreId>,
    outputs: VecDeque<(Port, CoreId)>,
}

impl Flooder {
    pub(super) const fn new(id: CoreId, ports: u16) -> Self {
        Self {
            id,
            ports,
            greatest: None,
            outputs: VecDeque::new(),
        }
    }

    fn learn(&mut self, id: CoreId, from: Option<Port>) {
        if self.greatest.is_some_and(|it| it >= id) {
            return;
        }
        self.greatest = Some(id);
        let others = (0..self.ports).map(Port).filter(|port| Some(*port) != from);
        self.outputs.extend(others.map(|port| (port, id)));
    }
}

impl LinkProcess for Flooder {
    type Message = CoreId;

    fn wake(&mut self) {
        self.learn(self.id, None);
    }

    fn handle(&mut self, port: Port, message: CoreId) {
        self.learn(message, Some(port));
    }

    fn poll(&mut self) -> Option<(Port, CoreId)> {
        self.outputs.pop_front()
    }
}
