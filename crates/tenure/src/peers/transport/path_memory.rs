//! The way to one member that worked last.

use std::time::Duration;

use tenure_core::{Instant, NodeId};

use super::path::RelayPath;

/// After this time on a path, a member that has the receiver's address searches again, so that it
/// uses a direct link that works again.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// After this time on a path with several relays, a member without the receiver's address searches
/// again. A path that was found while other members were down may be longer than needed.
const SHORTEN_AGAIN: Duration = Duration::from_secs(60);

/// How one attempt to send a message goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To the receiver's address.
    Direct,
    /// Through the members of this complete path.
    Through(RelayPath),
    /// To all members with an address, which search for the receiver in the same way.
    Search,
}

/// The way to one member that worked last, and when to search for another one. Without relays the
/// only way is the direct one.
#[derive(Debug)]
pub(super) struct PathMemory {
    has_address: bool,
    /// The time without a search after one that found nothing; `None` without relays.
    pause: Option<Duration>,
    state: State,
    no_search_before: Option<Instant>,
}

#[derive(Debug)]
enum State {
    Direct,
    /// The path has worked since it was found at this time.
    Through(RelayPath, Instant),
    /// No way is known to work.
    Unknown,
}

impl PathMemory {
    /// Creates the memory of a member that has sent nothing yet. `pause` limits the cost of
    /// searches for a member that is down; it is `None` if members pass no messages on.
    pub(super) fn new(has_address: bool, pause: Option<Duration>) -> Self {
        Self {
            has_address,
            pause,
            state: match has_address {
                true => State::Direct,
                false => State::Unknown,
            },
            no_search_before: None,
        }
    }

    /// Returns the way for the next attempt. Returns `None` if the receiver has no address and a
    /// search has failed a moment ago.
    pub(super) fn way(&self, now: Instant) -> Option<Way> {
        match &self.state {
            State::Direct => Some(Way::Direct),
            State::Through(path, found) => {
                let again = match (self.has_address, path.relays()) {
                    (true, _) => Some(LOOK_AGAIN),
                    // No path is shorter.
                    (false, [_]) => None,
                    (false, _) => Some(SHORTEN_AGAIN),
                };
                Some(match again.is_some_and(|again| now > *found + again) {
                    true => Way::Search,
                    false => Way::Through(path.clone()),
                })
            }
            State::Unknown if self.may_search(now) => Some(Way::Search),
            State::Unknown => self.has_address.then_some(Way::Direct),
        }
    }

    /// Records that the receiver has answered this way. A search has found this complete path.
    pub(super) fn succeed(&mut self, way: &Way, found: Option<RelayPath>, now: Instant) {
        self.no_search_before = None;
        match (way, found) {
            (Way::Through(_), _) => {}
            (Way::Search, Some(path)) if !path.relays().is_empty() => {
                self.state = State::Through(path, now);
            }
            _ => self.state = State::Direct,
        }
    }

    /// Records that there was no answer this way. Returns whether there is another way to try now.
    pub(super) fn fail(&mut self, way: &Way, now: Instant) -> bool {
        let Some(pause) = self.pause else {
            return false;
        };
        self.state = State::Unknown;
        if *way == Way::Search {
            self.no_search_before = Some(now + pause);
        }
        self.may_search(now)
    }

    /// Returns the members through which the receiver is reached: none if it is reached directly.
    /// Returns `None` while no way is known to work.
    pub(super) fn relays(&self) -> Option<&[NodeId]> {
        match &self.state {
            State::Direct => Some(&[]),
            State::Through(path, _) => Some(path.relays()),
            State::Unknown => None,
        }
    }

    fn may_search(&self, now: Instant) -> bool {
        self.pause.is_some() && self.no_search_before.is_none_or(|time| now >= time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn path(text: &str) -> RelayPath {
        RelayPath::parse(text).unwrap()
    }

    fn memory(has_address: bool) -> PathMemory {
        PathMemory::new(has_address, Some(PAUSE))
    }

    #[test]
    fn a_path_is_remembered_until_it_fails() {
        let mut memory = memory(false);
        assert_eq!(memory.way(at(1)), Some(Way::Search));
        assert_eq!(memory.relays(), None);
        memory.succeed(&Way::Search, Some(path("1,2,3")), at(1));
        let through = Way::Through(path("1,2,3"));
        for time in [1, 5, 60, 3600] {
            assert_eq!(memory.way(at(time)), Some(through.clone()));
            memory.succeed(&through, None, at(time));
        }
        assert_eq!(memory.relays(), Some(&[NodeId(2)][..]));
        assert!(memory.fail(&through, at(3601)), "a search is next");
        assert_eq!(memory.way(at(3601)), Some(Way::Search));
        memory.succeed(&Way::Search, Some(path("1,5,4,3")), at(3601));
        assert_eq!(memory.way(at(3661)), Some(Way::Through(path("1,5,4,3"))));
        // There may be a shorter path now.
        assert_eq!(memory.way(at(3662)), Some(Way::Search));
    }

    #[test]
    fn a_direct_link_that_fails_is_replaced_and_looked_for_again() {
        let mut memory = memory(true);
        assert_eq!(memory.way(at(1)), Some(Way::Direct));
        assert!(memory.fail(&Way::Direct, at(1)));
        assert_eq!(memory.way(at(1)), Some(Way::Search));
        memory.succeed(&Way::Search, Some(path("1,2,3")), at(1));
        assert_eq!(memory.way(at(11)), Some(Way::Through(path("1,2,3"))));
        // The direct link still fails, and so the search finds the path again.
        assert_eq!(memory.way(at(12)), Some(Way::Search));
        memory.succeed(&Way::Search, Some(path("1,2,3")), at(12));
        assert_eq!(memory.way(at(22)), Some(Way::Through(path("1,2,3"))));
        assert_eq!(memory.way(at(23)), Some(Way::Search));
        memory.succeed(&Way::Search, Some(path("1,3")), at(23));
        assert_eq!(memory.way(at(100)), Some(Way::Direct));
    }

    #[test]
    fn a_member_that_is_down_is_searched_for_only_now_and_then() {
        for (has_address, meanwhile) in [(false, None), (true, Some(Way::Direct))] {
            let mut memory = memory(has_address);
            assert!(!memory.fail(&Way::Search, at(5)), "nothing else to try");
            assert_eq!(memory.way(at(5)), meanwhile);
            assert!(!memory.fail(&Way::Direct, at(5)));
            assert_eq!(memory.way(at(6)), Some(Way::Search));
        }
    }

    #[test]
    fn without_relays_the_only_way_is_the_direct_one() {
        let mut memory = PathMemory::new(true, None);
        assert!(!memory.fail(&Way::Direct, at(1)));
        assert_eq!(memory.way(at(100)), Some(Way::Direct));
    }
}
