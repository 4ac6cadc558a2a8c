//! The formulas: as the papers print them, and the correct ones for each algorithm.
//!
//! All times are in T_m.

use super::parameters::Parameters;

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
    /// The numbers of failed and of listed members worse than the winner.
    pub(super) worse_failed: f64,
    pub(super) worse_listed: f64,
    /// T_o: the timeout.
    pub(super) timeout: f64,
    /// T_p: the processing time.
    pub(super) processing: f64,
}

impl From<&Parameters> for Case {
    fn from(of: &Parameters) -> Self {
        Self {
            members: of.n.into(),
            failed: of.failed().into(),
            winner: of.winner().into(),
            listed: of.better_listed.into(),
            worse_failed: of.worse_failed.into(),
            worse_listed: of.worse_listed.into(),
            timeout: of.t_o,
            processing: of.t_p,
        }
    }
}

/// The formulas as printed.
impl Case {
    /// pf: the number of listed members.
    pub(super) fn all_listed(&self) -> f64 {
        self.listed + self.worse_listed
    }

    /// 2004, Table 1: n - 1.
    pub(super) fn bully_best(&self) -> f64 {
        self.members - 1.0
    }

    /// 2004, Table 1: (n - f) n.
    pub(super) fn bully_worst(&self) -> f64 {
        (self.members - self.failed) * self.members
    }

    /// 2004, Table 1: n - 1 - pf.
    pub(super) fn detector_best(&self) -> f64 {
        self.members - 1.0 - self.all_listed()
    }

    /// 2004, Table 1: (n - f)(n - 1 - pf).
    pub(super) fn detector_worst(&self) -> f64 {
        (self.members - self.failed) * self.detector_best()
    }

    /// 2004, (2): R_GM = (2n - k) T_m + T_o.
    pub(super) fn formula_2(&self) -> f64 {
        2.0 * self.members - self.winner + self.timeout
    }

    /// 2004, (3): R_FD = (2n - k - l) T_m + T_o.
    pub(super) fn formula_3(&self) -> f64 {
        self.formula_2() - self.listed
    }

    /// 2004, (4): 4 T_m.
    pub(super) const fn formula_4(&self) -> f64 {
        4.0
    }

    /// 2008, (3.2): T_e = 2 T_m + T_p.
    pub(super) fn formula_3_2(&self) -> f64 {
        2.0 + self.processing
    }

    /// 2008, (3.3): T_GM = N_f T_o + (N - N_f) T_e.
    pub(super) fn formula_3_3(&self) -> f64 {
        self.failed * self.timeout + (self.members - self.failed) * self.formula_3_2()
    }

    /// 2008, (3.4): T_FD = 2N T_s + p N_f T_p + (1 - p) N_f T_o + (N - N_f) T_e. T_s is zero here,
    /// because a question to the detector is a call.
    pub(super) fn formula_3_4(&self) -> f64 {
        let unlisted = self.failed - self.all_listed();
        let answered = self.all_listed() * self.processing;
        let running = self.members - self.failed;
        answered + unlisted * self.timeout + running * self.formula_3_2()
    }

    /// 2008, (3.5): T_d = p N_f (T_o - T_p) - 2N T_s.
    pub(super) fn formula_3_5(&self) -> f64 {
        self.all_listed() * (self.timeout - self.processing)
    }

    /// The textbook's Bully: N(N - 1)/2 `Election`, as many `Answer`, and N - 1 `Coordinator`.
    pub(super) fn bully_square(&self) -> f64 {
        self.members * self.members - 1.0
    }

    /// Chang and Roberts, worst case: n(n + 1)/2, and one round for the announcement.
    pub(super) fn ring_worst(&self) -> f64 {
        self.members * (self.members + 1.0) / 2.0 + self.members
    }
}

/// The numbers of members.
impl Case {
    /// The running members worse than the winner.
    pub(super) fn worse(&self) -> f64 {
        self.members - self.winner - self.worse_failed
    }

    /// The failed members better than the winner that are not listed.
    pub(super) fn unlisted(&self) -> f64 {
        self.winner - 1.0 - self.listed
    }

    /// Returns T_o, if the winner must wait for an answer of a member that is better.
    pub(super) fn waits(&self) -> f64 {
        if self.unlisted() > 0.0 {
            self.timeout
        } else {
            0.0
        }
    }

    /// Returns the reason why the election of the figure never ends, if it does not. Only an `Ack`
    /// makes the organiser test whether all worse members have answered or are down. So there must be
    /// a worse member that is up, and the last verdict must not come after the last `Ack`.
    pub(super) fn obstacle(&self) -> Option<&'static str> {
        if self.worse() == 0.0 {
            return Some(
                "only an Ack makes the winner test whether it is done, and no worse member is up to send \
                 one",
            );
        }
        (self.worse_failed != self.worse_listed).then_some(
            "only an Ack makes the winner test whether it is done, and the last one arrives before the \
             detector finds a worse member down that is not listed",
        )
    }

    /// Returns the value if the election of the figure ends.
    fn if_it_ends(&self, value: f64) -> Option<f64> {
        self.obstacle().is_none().then_some(value)
    }
}

/// The correct values. The messages of an election with the textbook's algorithm include a
/// `Coordinator` to each worse member that is not listed.
impl Case {
    fn coordinators(&self) -> f64 {
        self.members - self.winner - self.worse_listed
    }

    /// The textbook's algorithm if the best running member begins.
    pub(super) fn textbook_best(&self) -> f64 {
        self.unlisted() + self.coordinators()
    }

    /// The textbook's algorithm if all running members begin: each of them asks all better ones,
    /// and the running ones among these answer.
    pub(super) fn textbook_worst(&self) -> f64 {
        let running = self.worse() + 1.0;
        running * self.unlisted() + running * self.worse() + self.coordinators()
    }

    /// The textbook's algorithm, one message after the other, if the worst running member begins: an
    /// `Election` to each worse member until one reaches the winner, its `Answer`, its questions,
    /// and a `Coordinator` to each worse member.
    pub(super) fn textbook_one_by_one(&self) -> f64 {
        let answer = if self.worse() > 0.0 { 1.0 } else { 0.0 };
        2.0 * self.worse() + answer + self.unlisted() + self.waits()
    }

    /// The textbook's algorithm with multicast: `Election`, `Answer`, `Election`, the timeout that
    /// formula (4) omits, and `Coordinator`. Without a member to wait for, there is no second
    /// `Election`.
    pub(super) fn textbook_multicast(&self) -> f64 {
        let question = if self.unlisted() > 0.0 { 1.0 } else { 0.0 };
        let rest = if self.worse() > 0.0 { 3.0 } else { 0.0 };
        question + self.waits() + rest
    }

    /// The figure if the best running member begins: a question to each better member that is not
    /// listed; a question, an answer, `Halt`, `Ack` and `Ldr` for each worse one.
    pub(super) fn figure_best(&self) -> Option<f64> {
        self.if_it_ends(self.unlisted() + 5.0 * self.worse())
    }

    /// The figure if all running members begin. All of them ask about all better members, and the
    /// running ones among these answer.
    pub(super) fn figure_worst(&self) -> Option<f64> {
        let worse = self.worse();
        let running = worse + 1.0;
        self.if_it_ends(running * self.unlisted() + worse * running + 5.0 * worse)
    }

    /// The figure, one message after the other: the questions, and then a question, a `Halt` and an
    /// `Ldr` to each worse member.
    pub(super) fn figure_one_by_one(&self) -> Option<f64> {
        self.if_it_ends(self.unlisted() + self.waits() + self.figure_stage_2())
    }

    /// The part of this time after the questions about better members.
    pub(super) fn figure_stage_2(&self) -> f64 {
        let worse = self.worse();
        // With one worse member, no messages overlap.
        if worse == 1.0 { 5.0 } else { 3.0 * worse + 1.0 }
    }

    /// The figure with multicast: the questions, and five messages.
    pub(super) fn figure_multicast(&self) -> Option<f64> {
        let questions = if self.unlisted() > 0.0 { 1.0 } else { 0.0 };
        self.if_it_ends(questions + self.waits() + 5.0)
    }

    /// The figure, all messages at once: two exchanges with all worse members, and `Ldr`.
    pub(super) fn figure_at_once(&self) -> Option<f64> {
        self.if_it_ends(self.waits() + 2.5 * self.exchange())
    }

    /// The time of a question and its answer, until the asker has handled the answer. T_e is the
    /// time until it has arrived.
    pub(super) fn exchange(&self) -> f64 {
        2.0 + 2.0 * self.processing
    }

    /// Garcia-Molina's algorithm until the election point: a timeout for each failed member, and a
    /// call of `Halt` for each worse one.
    pub(super) fn election_point(&self) -> f64 {
        self.failed * self.timeout + self.worse() * self.exchange()
    }

    /// The same until the last member is in its normal state: a call of `NewCoordinator` and of
    /// `Ready` for each worse member. The answer to the last `Ready` does not count.
    pub(super) fn calls(&self) -> f64 {
        let answer = if self.worse() > 0.0 {
            self.exchange() / 2.0
        } else {
            0.0
        };
        self.election_point() + 2.0 * self.worse() * self.exchange() - answer
    }

    /// The same if all calls of a phase are made at once: a timeout for all better members, one for
    /// all worse ones if some of them failed, two exchanges and `Ready`.
    pub(super) fn calls_at_once(&self) -> f64 {
        let asking = if self.winner > 1.0 { self.timeout } else { 0.0 };
        let halting = match (self.worse_failed > 0.0, self.worse() > 0.0) {
            (true, _) => self.timeout,
            (false, true) => self.exchange(),
            (false, false) => 0.0,
        };
        let rest = if self.worse() > 0.0 {
            1.5 * self.exchange()
        } else {
            0.0
        };
        asking + halting + rest
    }
}
