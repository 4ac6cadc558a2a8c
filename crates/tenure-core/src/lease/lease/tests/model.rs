//! Every order of events for a server and two clients. The clients give up requests and acquire
//! again with the same lease id over another connection. The server notices a closed connection
//! only when it runs the task of the request.

extern crate std;

use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use stateright::{Checker, Model, Property};

use super::*;

/// The last second of the model.
const END: u64 = 6;

/// The number of acquires of each client.
const ASKS: usize = 3;

/// One of the two clients. Its lease id has the same number.
type Client = u64;

/// The clients and the server.
struct Connections {
    /// Enables the bug: the server takes back a grant whose answer was not sent, and does not check
    /// for changes of the lease since.
    unchecked: bool,
}

#[derive(Clone, Debug)]
struct State {
    now: u64,
    lease: Lease<()>,
    /// The requests, each on its own connection. The number of a request is its index.
    requests: Vec<Request>,
    /// The end of each client's lease according to its answers; `None` if the client has no grant.
    known: [Option<u64>; 2],
    /// Whether a grant was given back.
    given_back: bool,
}

#[derive(Clone, Debug)]
struct Request {
    client: Client,
    /// The end of the granted lease, while the server has not sent the answer.
    unread: Option<u64>,
    /// Whether the client has closed the connection.
    is_closed: bool,
    /// Whether the server has answered or dropped the request.
    is_over: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// A second passes.
    Tick,
    /// The server's timer fires.
    Timer,
    /// The client gives up its request and closes the connection.
    GiveUp(Client),
    /// The client closes its connection and acquires over another one. The server handles the new
    /// request at once.
    Ask(Client),
    /// The client releases the lease.
    Release(Client),
    /// The server runs the task of a request: it sends the answer, or notices that the connection
    /// was closed.
    Poll(usize),
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        alloc::format!("{self:?}").hash(state);
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        alloc::format!("{self:?}") == alloc::format!("{other:?}")
    }
}

impl State {
    fn serve(&mut self) {
        let now = at(self.now);
        while let Some(due) = poll(&mut self.lease, now) {
            if let Due::Granted { to, .. } = due {
                let request = &mut self.requests[to.number as usize];
                request.unread = Some(self.now + DURATION);
            }
        }
    }

    fn known_mut(&mut self, client: Client) -> &mut Option<u64> {
        &mut self.known[client as usize - 1]
    }

    fn give_up(&mut self, client: Client) {
        for request in &mut self.requests {
            request.is_closed |= request.client == client && !request.is_over;
        }
    }

    fn ask(&mut self, client: Client) {
        self.give_up(client);
        let number = self.requests.len();
        let mut request = Request {
            client,
            unread: None,
            is_closed: false,
            is_over: true,
        };
        self.serve();
        match (self.lease).apply(&acquire(client), at(self.now), &Rules::NATIVE) {
            Ok(_) => *self.known_mut(client) = Some(self.now + DURATION),
            Err(rejection) if rejection.is_transient() => {
                request.is_over = false;
                let replaced = self.lease.wait(100, waiting(client, number as u64));
                if let Some(replaced) = replaced {
                    self.requests[replaced.number as usize].is_over = true;
                }
            }
            Err(_) => {}
        }
        self.requests.push(request);
        self.serve();
    }

    fn poll(&mut self, number: usize, unchecked: bool) {
        let request = &mut self.requests[number];
        let (client, unread) = (request.client, request.unread.take());
        request.is_over = true;
        let now = at(self.now);
        match unread {
            Some(until) if !request.is_closed => *self.known_mut(client) = Some(until),
            Some(_) if unchecked => {
                let release = Operation::Release(id(client));
                let released = self.lease.apply(&release, now, &Rules::NATIVE);
                self.given_back |= released.is_ok();
            }
            Some(_) => self.given_back |= self.lease.give_back(number as u64, now).is_some(),
            None => drop(self.lease.leave(id(client), number as u64, now)),
        }
        self.serve();
    }

    /// Returns whether each client with an answer that grants the lease still holds it.
    fn keeps_leases(&self) -> bool {
        let holder = holder(&self.lease, at(self.now));
        let known = (1..).zip(self.known);
        let mut holding = known.filter(|(_, until)| until.is_some_and(|until| self.now < until));
        holding.all(|(client, _)| holder == Some(id(client)))
    }
}

impl Model for Connections {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        Vec::from([State {
            now: 0,
            lease: Lease::default(),
            requests: Vec::new(),
            known: [None; 2],
            given_back: false,
        }])
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.now < END {
            actions.push(Action::Tick);
        }
        if state.lease.is_due(at(state.now)) {
            actions.push(Action::Timer);
        }
        for client in [1, 2] {
            let asked = state.requests.iter().filter(|it| it.client == client);
            if asked.count() < ASKS {
                actions.push(Action::Ask(client));
            }
            let mut open = state
                .requests
                .iter()
                .filter(|it| !it.is_over && !it.is_closed);
            if open.any(|it| it.client == client) {
                actions.push(Action::GiveUp(client));
            }
            if state.known[client as usize - 1].is_some() {
                actions.push(Action::Release(client));
            }
        }
        let has_work = |request: &Request| request.unread.is_some() || request.is_closed;
        let requests = state.requests.iter().enumerate();
        let open = requests.filter(|(_, request)| !request.is_over && has_work(request));
        actions.extend(open.map(|(number, _)| Action::Poll(number)));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Tick => next.now += 1,
            Action::Timer => next.serve(),
            Action::GiveUp(client) => next.give_up(client),
            Action::Ask(client) => next.ask(client),
            Action::Release(client) => {
                *next.known_mut(client) = None;
                next.serve();
                let release = Operation::Release(id(client));
                // The lease may have expired.
                let _ = next.lease.apply(&release, at(next.now), &Rules::NATIVE);
                next.serve();
            }
            Action::Poll(number) => next.poll(number, self.unchecked),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        Vec::from([
            Property::always(
                "a client with an answer that it holds the lease holds it",
                |_, state: &State| state.keeps_leases(),
            ),
            Property::sometimes("a grant is given back", |_, state: &State| state.given_back),
        ])
    }
}

fn explored(unchecked: bool) -> impl Checker<Connections> {
    Connections { unchecked }.checker().spawn_bfs().join()
}

#[test]
fn a_client_with_an_answer_that_it_holds_the_lease_keeps_it_in_every_order_of_events() {
    let explored = explored(false);
    std::println!("{} states", explored.unique_state_count());
    explored.assert_properties();
}

#[test]
fn the_model_finds_a_grant_that_is_taken_back_unchecked() {
    let explored = explored(true);
    let found = explored.discovery("a client with an answer that it holds the lease holds it");
    let steps = found.expect("a counterexample").into_actions();
    std::println!("{steps:?}");
    // The client that loses the lease acquired twice: one request waited, and the other was
    // answered.
    assert!(steps.len() >= 4, "{steps:?}");
}
