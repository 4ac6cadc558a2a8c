//! The longer formulas: as the papers print them, and the correct ones for the printed algorithms.
//!
//! All times are in T_m.

/// The variables of the formulas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Case {
    /// n: the number of members.
    pub(super) members: f64,
    /// f or N_f: the number of failed members.
    pub(super) failed: f64,
    /// k: the best running member.
    pub(super) winner: f64,
    /// l: the number of failed members better than the winner that are listed.
    pub(super) listed: f64,
    /// T_o: the timeout.
    pub(super) timeout: f64,
    /// T_p: the processing time.
    pub(super) processing: f64,
}

impl Case {
    /// Returns p: the fraction of the failed members that are listed.
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

    /// Returns T_o, if the winner must wait for a member.
    fn waits(&self) -> f64 {
        if self.unlisted() > 0.0 {
            self.timeout
        } else {
            0.0
        }
    }

    /// Returns the time of a message and its answer, each with its processing.
    pub(super) fn exchange(&self) -> f64 {
        2.0 + 2.0 * self.processing
    }

    /// Formula (2): R_GM = (2n - k) T_m + T_o.
    pub(super) fn bully_one_by_one(&self) -> f64 {
        2.0 * self.members - self.winner + self.timeout
    }

    /// The questions, and then a question, a `Halt` and an `Ldr` to each worse member, one after
    /// the other. The detector counts T_o from the question.
    pub(super) fn published_one_by_one(&self) -> f64 {
        let worse = match self.worse() {
            // With one worse member, no messages overlap.
            1.0 => 5.0,
            worse => 3.0 * worse + 1.0,
        };
        self.waits() + worse
    }

    /// Formula (3.2): T_e = 2 T_m + T_p. It omits the processing by the asker.
    pub(super) fn printed_exchange(&self) -> f64 {
        2.0 + self.processing
    }

    /// Formula (3.4): T_FD = 2 N T_s + p N_f T_p + (1 - p) N_f T_o + (N - N_f) T_e. T_s is zero
    /// here, because a question to the detector is a call.
    pub(super) fn detector_2008(&self) -> f64 {
        let listed = self.p() * self.failed * self.processing;
        let unlisted = (1.0 - self.p()) * self.failed * self.timeout;
        listed + unlisted + (self.members - self.failed) * self.printed_exchange()
    }

    /// All better members are asked at once. Then follow two exchanges with all worse members, and
    /// `Ready`.
    pub(super) fn classic_at_once(&self) -> f64 {
        self.timeout + 2.5 * self.exchange()
    }

    /// The same number of messages one after the other, without a wait if all failed members are
    /// listed.
    pub(super) fn published_at_once(&self) -> f64 {
        self.waits() + 2.5 * self.exchange()
    }

    /// Table 1, best case: n - 1.
    pub(super) fn bully_best(&self) -> f64 {
        self.members - 1.0
    }

    /// All running members ask about all better members, and the running ones among these answer.
    pub(super) fn published_worst(&self) -> f64 {
        let worse = self.worse();
        (worse + 1.0) * self.unlisted() + worse * (worse + 1.0) + 5.0 * worse
    }

    /// Chang and Roberts, worst case: n(n + 1)/2, and one round for the announcement.
    pub(super) fn ring_worst(&self) -> f64 {
        self.members * (self.members + 1.0) / 2.0 + self.members
    }
}
