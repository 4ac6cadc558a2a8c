//! The path of a request that members pass on.

use std::fmt;

use tenure_core::NodeId;
use tenure_core::bully::MAX_MEMBERS;

/// The header with the [`RelayPath`] of a request or of an answer.
pub(super) const PATH_HEADER: &str = "tenure-path";

/// The members that a request passes, in order, from its sender on. The path of a search ends with
/// the member that sends it now. A complete path ends with the receiver.
///
/// No member is on a path twice, so a request can't go in a circle, and a path is no longer than
/// the list of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RelayPath(Vec<NodeId>);

/// What a member that is asked to pass a request on does with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The path is complete: the request goes to this member.
    Follow(NodeId),
    /// The request searches for its receiver. This is its path, which ends with this member now.
    Search(RelayPath),
}

impl RelayPath {
    /// Creates the path of a request that its sender sends.
    pub(super) fn of_sender(from: NodeId) -> Self {
        Self(vec![from])
    }

    /// Parses node ids that are separated by commas. Returns `None` if they are not a path.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut path = Vec::new();
        for node in text.split(',') {
            let node = NodeId(node.trim().parse().ok()?);
            if path.len() == MAX_MEMBERS || path.contains(&node) {
                return None;
            }
            path.push(node);
        }
        Some(Self(path))
    }

    /// Returns this path with one more member at its end.
    pub(super) fn then(&self, node: NodeId) -> Self {
        Self(self.0.iter().copied().chain([node]).collect())
    }

    pub(super) fn contains(&self, node: NodeId) -> bool {
        self.0.contains(&node)
    }

    /// Returns whether this path begins with `other`.
    pub(super) fn continues(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    /// Returns whether this path ends with this member.
    pub(super) fn ends_with(&self, node: NodeId) -> bool {
        self.0.last() == Some(&node)
    }

    /// Returns the member that a complete path names after this one.
    pub(super) fn after(&self, node: NodeId) -> Option<NodeId> {
        let place = self.0.iter().position(|it| *it == node)?;
        self.0.get(place + 1).copied()
    }

    /// Returns the members between the sender and the receiver of a complete path.
    pub(super) fn relays(&self) -> &[NodeId] {
        match &*self.0 {
            [_, relays @ .., _] => relays,
            _ => &[],
        }
    }

    /// Returns the step of the member `me` with a request of `from` to `to`.
    ///
    /// # Errors
    ///
    /// The reason why this is not a path on which `me` can pass the request on.
    pub(super) fn step(&self, from: NodeId, me: NodeId, to: NodeId) -> Result<Step, &'static str> {
        if self.0.first() != Some(&from) {
            return Err("the path does not begin with the sender of the message");
        }
        if self.ends_with(to) {
            return match self.after(me) {
                Some(next) if me != from => Ok(Step::Follow(next)),
                _ => Err("this member is not on the path before the receiver"),
            };
        }
        // A request that came back to a member on its path would go in a circle.
        if self.contains(me) || self.contains(to) {
            return Err("the message has been here before");
        }
        Ok(Step::Search(self.then(me)))
    }
}

impl fmt::Display for RelayPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, node) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{node}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelayPath {
        RelayPath::parse(text).unwrap()
    }

    #[test]
    fn a_path_is_a_list_of_different_members() {
        assert_eq!(path("3,1,4").to_string(), "3,1,4");
        assert_eq!(
            path("3, 1"),
            RelayPath::of_sender(NodeId(3)).then(NodeId(1))
        );
        for wrong in ["", ",", "1,", "1,2,1", "1;2", "1,-2", "1,two"] {
            assert_eq!(RelayPath::parse(wrong), None, "{wrong:?}");
        }
        let numbers = |count| (1..=count).map(|it| it.to_string()).collect::<Vec<_>>();
        assert!(RelayPath::parse(&numbers(MAX_MEMBERS).join(",")).is_some());
        assert!(RelayPath::parse(&numbers(MAX_MEMBERS + 1).join(",")).is_none());
    }

    #[test]
    fn a_search_goes_on_from_this_member_and_never_in_a_circle() {
        let step = |text: &str| path(text).step(NodeId(1), NodeId(5), NodeId(9));
        assert_eq!(step("1"), Ok(Step::Search(path("1,5"))));
        assert_eq!(step("1,3"), Ok(Step::Search(path("1,3,5"))));
        for circle in ["1,5", "1,5,3", "1,9,3"] {
            assert!(step(circle).is_err(), "{circle}");
        }
        assert!(step("2,1").is_err(), "another sender");
    }

    #[test]
    fn a_complete_path_is_followed_by_the_members_on_it() {
        let of = |text: &str, me| path(text).step(NodeId(1), NodeId(me), NodeId(9));
        assert_eq!(of("1,5,3,9", 5), Ok(Step::Follow(NodeId(3))));
        assert_eq!(of("1,5,3,9", 3), Ok(Step::Follow(NodeId(9))));
        for other in [1, 4, 9] {
            assert!(of("1,5,3,9", other).is_err(), "{other}");
        }
        assert_eq!(path("1,5,3,9").relays(), [NodeId(5), NodeId(3)]);
        assert_eq!(path("1,9").relays(), []);
    }
}
