//! The run of one process at each node, message by message.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::str::FromStr;

use tenure_core::random::Random;
use tenure_sim::sim::Rng;

use super::forest::Port;
use super::graph::LinkNetwork;

/// Ticks of the mean delay of a message.
const UNIT: f64 = 1_000.0;

/// The delays of messages. The mean is 1, except with slow links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkDelay {
    /// Always 1.
    Constant,
    /// 0.5 to 1.5.
    Uniform,
    /// Exponentially distributed.
    Exponential,
    /// Pareto with exponent 1.5: some messages take a hundred times as long as others.
    HeavyTailed,
    /// Uniform, and 40 % of the links are 50 times as slow.
    SlowLinks,
}

impl LinkDelay {
    /// All delays.
    pub const ALL: [Self; 5] = [
        Self::Constant,
        Self::Uniform,
        Self::Exponential,
        Self::HeavyTailed,
        Self::SlowLinks,
    ];

    fn draw(self, is_slow: bool, rng: &mut Rng) -> u64 {
        // Never zero, and the same on every machine.
        let unit = ((rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        let delay = match self {
            Self::Constant => 1.0,
            Self::Uniform => 0.5 + unit,
            Self::Exponential => -libm::log(unit),
            Self::HeavyTailed => (1.0 / (3.0 * libm::pow(unit, 1.0 / 1.5))).min(1_000.0),
            Self::SlowLinks if is_slow => 50.0 * (0.5 + unit),
            Self::SlowLinks => 0.5 + unit,
        };
        ((delay * UNIT) as u64).max(1)
    }
}

impl fmt::Display for LinkDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Constant => "constant",
            Self::Uniform => "uniform",
            Self::Exponential => "exponential",
            Self::HeavyTailed => "heavy-tailed",
            Self::SlowLinks => "slow-links",
        })
    }
}

impl FromStr for LinkDelay {
    type Err = tenure_sim::UnknownName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        tenure_sim::find("kind of delay", text, Self::ALL, ToString::to_string)
    }
}

/// A process on the stage.
pub(super) trait LinkProcess {
    type Message: Clone;

    fn wake(&mut self);
    fn handle(&mut self, port: Port, message: Self::Message);
    fn poll(&mut self) -> Option<(Port, Self::Message)>;
}

/// The conditions of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct StageOptions {
    pub(super) delay: LinkDelay,
    /// Whether links deliver in order.
    pub(super) in_order: bool,
    /// The longest time until an initiator begins, in mean delays.
    pub(super) spread: u32,
    /// The number of messages after which the run ends.
    pub(super) most_messages: u64,
    pub(super) seed: u64,
}

#[derive(Debug)]
struct Flying<M> {
    at: u64,
    /// Messages that arrive at the same time arrive in the order of sending.
    number: u64,
    node: u32,
    /// `None` if the process begins.
    message: Option<(Port, M)>,
}

impl<M> Flying<M> {
    const fn key(&self) -> (u64, u64) {
        (self.at, self.number)
    }
}

impl<M> PartialEq for Flying<M> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<M> Eq for Flying<M> {}

impl<M> PartialOrd for Flying<M> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<M> Ord for Flying<M> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// A network with a process at each node.
pub(super) struct Stage<'a, P: LinkProcess> {
    pub(super) network: &'a LinkNetwork,
    pub(super) processes: Vec<P>,
    options: StageOptions,
    rng: Rng,
    is_slow: Vec<bool>,
    now: u64,
    sent: u64,
    flying: BinaryHeap<Reverse<Flying<P::Message>>>,
    /// The last arrival at each port.
    arrivals: Vec<Vec<u64>>,
}

impl<'a, P: LinkProcess> Stage<'a, P> {
    pub(super) fn new(
        network: &'a LinkNetwork,
        processes: Vec<P>,
        initiators: &[u32],
        options: StageOptions,
    ) -> Self {
        let mut rng = Rng::new(options.seed, 3);
        let links = 0..network.links().len();
        let is_slow = links.map(|_| rng.happens(400_000)).collect();
        let nodes = 0..processes.len();
        let mut stage = Self {
            network,
            arrivals: nodes.map(|it| vec![0; network.ports(it).len()]).collect(),
            processes,
            options,
            is_slow,
            now: 0,
            sent: 0,
            flying: BinaryHeap::new(),
            rng,
        };
        for (number, &node) in initiators.iter().enumerate() {
            let at = stage.rng.unit() * f64::from(options.spread) * UNIT;
            stage.flying.push(Reverse(Flying {
                at: at as u64,
                number: number as u64,
                node,
                message: None,
            }));
        }
        stage.sent = initiators.len() as u64;
        stage
    }

    /// Runs until no message is left, and calls `sent` with each message that is sent and `handled`
    /// with each node that has handled one. Returns whether no message was left, or why `handled`
    /// has ended the run.
    pub(super) fn run(
        &mut self,
        mut sent: impl FnMut(&P::Message),
        mut handled: impl FnMut(&Self, u32) -> Result<(), String>,
    ) -> Result<bool, String> {
        let most = self.options.most_messages.saturating_add(self.sent);
        while let Some(Reverse(flying)) = self.flying.pop() {
            self.now = flying.at;
            let node = flying.node;
            let process = &mut self.processes[node as usize];
            match flying.message {
                Some((port, message)) => process.handle(port, message),
                None => process.wake(),
            }
            while let Some((port, message)) = self.processes[node as usize].poll() {
                sent(&message);
                self.send(node, port, message);
            }
            handled(self, node)?;
            if self.sent > most {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the current time in mean delays.
    pub(super) fn now(&self) -> f64 {
        self.now as f64 / UNIT
    }

    fn send(&mut self, from: u32, port: Port, message: P::Message) {
        self.sent += 1;
        let far = self.network.ports(from as usize)[usize::from(port.0)];
        if !far.delivers {
            return;
        }
        let delay = self.options.delay;
        let mut at = self.now + delay.draw(self.is_slow[far.link], &mut self.rng);
        if self.options.in_order {
            let last = &mut self.arrivals[far.node as usize][usize::from(far.port.0)];
            at = at.max(*last);
            *last = at;
        }
        self.flying.push(Reverse(Flying {
            at,
            number: self.sent,
            node: far.node,
            message: Some((far.port, message)),
        }));
    }
}
