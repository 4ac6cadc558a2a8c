//! The longer formulas: as the papers print them, and correct ones for the printed algorithms.
//!
//! All times in T_m. `a` below is how many live members are worse than the winner, n - k.

/// The variables of the formulas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Case {
    /// n.
    pub(super) members: f64,
    /// f, N_f.
    pub(super) failed: f64,
    /// The best one that is up.
    pub(super) winner: f64,
    /// l: how many of the failed that are better than the winner are listed.
    pub(super) listed: f64,
    /// T_o.
    pub(super) timeout: f64,
    /// T_p.
    pub(super) processing: f64,
}

impl Case {
    /// p: how many of the failed are listed, as a fraction.
    pub(super) fn p(&self) -> f64 {
        if self.failed > 0.0 {
            self.listed / self.failed
        } else {
            0.0
        }
    }

    pub(super) fn worse(&self) -> f64 {
        self.members - self.winner
    }

    pub(super) fn unlisted(&self) -> f64 {
        self.winner - 1.0 - self.listed
    }

    /// T_o, if there is a member to wait for.
    fn waits(&self) -> f64 {
        if self.unlisted() > 0.0 {
            self.timeout
        } else {
            0.0
        }
    }

    /// There and back, each way with its processing.
    pub(super) fn exchange(&self) -> f64 {
        2.0 + 2.0 * self.processing
    }

    /// (2): R_GM = (2n - k) T_m + T_o.
    pub(super) fn bully_one_by_one(&self) -> f64 {
        2.0 * self.members - self.winner + self.timeout
    }

    /// The questions, and then a question, a `Halt` and an `Ldr` to each worse one, each after the
    /// other. The detector counts T_o from the question.
    pub(super) fn published_one_by_one(&self) -> f64 {
        let worse = match self.worse() {
            // Nothing overlaps.
            1.0 => 5.0,
            worse => 3.0 * worse + 1.0,
        };
        self.waits() + worse
    }

    /// (3.2): T_e = 2 T_m + T_p; the asker has something to process as well.
    pub(super) fn printed_exchange(&self) -> f64 {
        2.0 + self.processing
    }

    /// (3.4): T_FD = 2 N T_s + p N_f T_p + (1 - p) N_f T_o + (N - N_f) T_e. T_s is zero here: to ask the
    /// detector is a call.
    pub(super) fn detector_2008(&self) -> f64 {
        let listed = self.p() * self.failed * self.processing;
        let unlisted = (1.0 - self.p()) * self.failed * self.timeout;
        listed + unlisted + (self.members - self.failed) * self.printed_exchange()
    }

    /// All better ones are asked at once; then two exchanges with all worse ones, and `Ready`.
    pub(super) fn classic_at_once(&self) -> f64 {
        self.timeout + 2.5 * self.exchange()
    }

    /// As many messages after each other, and no wait if all are listed.
    pub(super) fn published_at_once(&self) -> f64 {
        self.waits() + 2.5 * self.exchange()
    }

    /// Table 1, best case: n - 1.
    pub(super) fn bully_best(&self) -> f64 {
        self.members - 1.0
    }

    /// All that are up ask about all better ones; those that are up answer.
    pub(super) fn published_worst(&self) -> f64 {
        let worse = self.worse();
        (worse + 1.0) * self.unlisted() + worse * (worse + 1.0) + 5.0 * worse
    }

    /// Chang and Roberts, worst case: n(n + 1)/2, and the news once round.
    pub(super) fn ring_worst(&self) -> f64 {
        self.members * (self.members + 1.0) / 2.0 + self.members
    }
}
