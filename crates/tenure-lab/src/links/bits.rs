//! The sizes of messages in a plain binary form.

use super::forest::ForestMessage;

/// The bits of the kind of a message.
const KIND: u32 = 4;

/// The bits of the parts of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct BitSizes {
    level: u32,
    pub(super) id: u32,
    open: u32,
    count: u32,
}

impl BitSizes {
    /// The sizes for n processes, identifiers of this number of bits, and 2f + 1 tokens.
    pub(super) fn new(members: u32, id: u32, tokens: u32) -> Self {
        let levels = members.max(2).ilog2() + 3;
        Self {
            level: bits_of(levels),
            id,
            open: bits_of(tokens),
            count: bits_of(members),
        }
    }

    pub(super) const fn of(self, message: &ForestMessage) -> u32 {
        let label = self.level + self.id;
        KIND + match message {
            ForestMessage::Hello | ForestMessage::HelloAck | ForestMessage::Reject => 0,
            ForestMessage::Test(_)
            | ForestMessage::Accept(_)
            | ForestMessage::Found(_)
            | ForestMessage::ChangeRoot(_)
            | ForestMessage::Connect(_)
            | ForestMessage::RaiseRequest(_) => label,
            // Whether it is an edge, and whether there is a goal.
            ForestMessage::Initiate { goal: None, .. } => label + 2,
            ForestMessage::Initiate { goal: Some(_), .. } => label + 2 + self.count,
            ForestMessage::Up { .. } | ForestMessage::Grow { .. } => label + self.open + self.count,
            ForestMessage::Quota { .. } => label + self.count,
            ForestMessage::Elected(_) => self.id,
        }
    }
}

/// The bits of a number from 0 to `most`.
pub(super) const fn bits_of(most: u32) -> u32 {
    u32::BITS - most.leading_zeros()
}
