//! Connections.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{CounterSet, Exposition, Label, Sample};

/// The connections of a server.
#[derive(Debug, Default)]
pub(crate) struct ConnectionMetrics {
    seats: AtomicU64,
    standing: AtomicU64,
    pub(crate) refused: CounterSet<ConnectionRefusal>,
    pub(crate) failed_handshakes: AtomicU64,
}

/// The place of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionPlace {
    /// The connection is within the limits.
    Seat,
    /// The connection is over a limit. It is closed after its first request.
    Standing,
}

/// The reason why a connection was closed without an answer to its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionRefusal {
    /// The store has `max_connections` connections.
    Store,
    /// The address has `max_connections_per_address` connections.
    Address,
    /// The places for connections over the limit were taken, too.
    Full,
}

/// An open connection. Dropping it ends the count.
#[derive(Debug)]
pub(crate) struct CountedConnection<'a>(&'a AtomicU64);

impl ConnectionMetrics {
    /// Counts a connection as open while the returned value lives.
    pub(crate) fn open(&self, place: ConnectionPlace) -> CountedConnection<'_> {
        let count = match place {
            ConnectionPlace::Seat => &self.seats,
            ConnectionPlace::Standing => &self.standing,
        };
        count.fetch_add(1, Ordering::Relaxed);
        CountedConnection(count)
    }

    /// `limits` are those of the two places.
    pub(crate) fn expose(&self, out: &mut Exposition, limits: [usize; 2]) {
        const PLACES: [&str; 2] = ["seat", "standing"];
        let counts = [&self.seats, &self.standing];
        let counts = PLACES.into_iter().zip(counts).map(|(place, count)| {
            Sample::count(count.load(Ordering::Relaxed)).with("place", place)
        });
        out.gauge(
            "tenure_connections",
            "Open connections: within the limit (seat), and over it (standing).",
            counts,
        );
        let limits = PLACES
            .into_iter()
            .zip(limits)
            .map(|(place, limit)| Sample::count(limit as u64).with("place", place));
        out.gauge(
            "tenure_connections_limit",
            "The limit of tenure_connections.",
            limits,
        );
        out.counters(
            "tenure_connections_refused_total",
            "Connections over a limit whose request was refused, or that were closed at once (full).",
            "why",
            &self.refused,
        );
        let failed = self.failed_handshakes.load(Ordering::Relaxed);
        out.counter(
            "tenure_tls_handshake_failures_total",
            "TLS handshakes that failed or took too long.",
            [Sample::count(failed)],
        );
    }
}

impl Drop for CountedConnection<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Label for ConnectionRefusal {
    const ALL: &'static [Self] = &[Self::Store, Self::Address, Self::Full];

    fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Address => "address",
            Self::Full => "full",
        }
    }
}
