//! The reasons why measured values differ from the printed ones.
//!
//! Each function returns the parts of the difference between the value of an algorithm and that of a
//! printed formula, both as functions of the parameters. Parts that are 0 are left out of a verdict.

use super::formula::Case;
use super::verdict::Reason;

const WORSE_IDLE: &str =
    "a failed member worse than the winner neither begins nor has to learn the leader";
const WAITS: &str = "the winner waits for T_o before it announces itself";
const ONE_COORDINATOR: &str = "a failed member that is worse than the winner and not listed gets one \
                               Coordinator, and no message of each running member";
const LISTED_IS_FREE: &str = "the formula subtracts a T_p for each listed member, although the algorithm spends no time on a listed member";

impl Case {
    /// A reason that counts only if all failed members better than the winner are listed, or if
    /// there are none.
    fn if_none_is_asked(&self, by: f64, [listed, none]: [&'static str; 2]) -> Reason {
        let by = if self.unlisted() > 0.0 { 0.0 } else { by };
        Reason::new(by, if self.listed > 0.0 { listed } else { none })
    }

    /// A reason that counts only if no worse member is up.
    fn if_no_worse_is_up(&self, by: f64, about: &'static str) -> Reason {
        Reason::new(if self.worse() > 0.0 { 0.0 } else { by }, about)
    }

    /// The winner does not wait, although the formula has a T_o.
    fn without_waiting(&self) -> Reason {
        let about = [
            "all failed members better than the winner are listed, so it does not wait for T_o",
            "the winner is the best member, so it does not wait for T_o",
        ];
        self.if_none_is_asked(-self.timeout, about)
    }

    /// The members worse than the winner that failed and are not listed.
    fn worse_unlisted(&self) -> f64 {
        self.worse_failed - self.worse_listed
    }

    /// The reasons of the figure: the one why its election never ends, or these.
    fn of_figure(&self, reasons: impl IntoIterator<Item = Reason>) -> Vec<Reason> {
        match self.obstacle() {
            Some(obstacle) => vec![Reason::new(f64::INFINITY, obstacle)],
            None => reasons.into_iter().collect(),
        }
    }
}

/// The paper of 2004.
impl Case {
    pub(super) fn bully_worst_reasons(&self) -> Vec<Reason> {
        vec![
            Reason::new(-1.0, "the winner sends no Coordinator to itself"),
            Reason::new(-self.worse_unlisted() * self.worse(), ONE_COORDINATOR),
        ]
    }

    pub(super) fn figure_best_reasons(&self) -> Vec<Reason> {
        let about = "the figure has a question, its answer, Halt, Ack and Ldr for each worse member that \
                     is up, and the formula only a Coordinator";
        self.of_figure([Reason::new(4.0 * self.worse(), about)])
    }

    pub(super) fn detector_worst_reasons(&self) -> Vec<Reason> {
        let about =
            "the formula leaves out the Coordinator of the winner to each worse member that is up";
        vec![
            Reason::new(self.worse(), about),
            Reason::new(-self.worse_unlisted() * self.worse(), ONE_COORDINATOR),
        ]
    }

    pub(super) fn figure_worst_reasons(&self) -> Vec<Reason> {
        let about = "the formula leaves out the question of the winner, its answer, Halt, Ack and Ldr for \
                     each worse member that is up";
        self.of_figure([Reason::new(5.0 * self.worse(), about)])
    }

    /// Formulas (2) and (3), which have the same terms but for l.
    pub(super) fn one_by_one_reasons(&self) -> Vec<Reason> {
        let alone = "no worse member is up, so the winner sends no Answer";
        vec![
            self.without_waiting(),
            self.if_no_worse_is_up(-1.0, alone),
            Reason::new(-2.0 * self.worse_failed, WORSE_IDLE),
        ]
    }

    pub(super) fn figure_one_by_one_reasons(&self) -> Vec<Reason> {
        let worse = self.worse();
        let unwoken = "the figure has no Election that wakes k and no Answer: the time counts from the \
                       moment at which k begins";
        let halting = "k also asks and halts each worse member, before its Ldr";
        self.of_figure([
            self.without_waiting(),
            Reason::new(-(worse + 1.0), unwoken),
            Reason::new(self.figure_stage_2() - worse, halting),
            Reason::new(-2.0 * self.worse_failed, WORSE_IDLE),
        ])
    }

    /// With multicast, the winner sends no question if all better members are listed.
    fn without_question(&self) -> Reason {
        let about = [
            "all failed members better than the winner are listed, so it sends them no question",
            "the winner is the best member, so it sends no question to better ones",
        ];
        self.if_none_is_asked(-1.0, about)
    }

    pub(super) fn multicast_reasons(&self) -> Vec<Reason> {
        let alone = "no worse member is up, so there is no Election of a worse one, no Answer, and nobody \
                     has to learn the leader";
        vec![
            Reason::new(self.waits(), WAITS),
            self.without_question(),
            self.if_no_worse_is_up(-3.0, alone),
        ]
    }

    pub(super) fn figure_multicast_reasons(&self) -> Vec<Reason> {
        let halting = "a question, its answer, Halt, Ack and Ldr follow each other, in place of Election, \
                       Answer and Coordinator";
        self.of_figure([
            Reason::new(self.waits(), WAITS),
            self.without_question(),
            Reason::new(2.0, halting),
        ])
    }
}

/// The paper of 2008.
impl Case {
    pub(super) fn exchange_reasons(&self) -> Vec<Reason> {
        let about = "the asker takes T_p as well, to handle the answer";
        vec![Reason::new(self.processing, about)]
    }

    pub(super) fn election_point_reasons(&self) -> Vec<Reason> {
        let winner = "N-N_f counts the winner, which does not call itself: one T_e";
        let asker = "the winner takes T_p to handle each answer, which T_e does not count";
        vec![
            Reason::new(-self.formula_3_2(), winner),
            Reason::new(self.worse() * self.processing, asker),
        ]
    }

    pub(super) fn calls_reasons(&self) -> Vec<Reason> {
        let rounds = "the formula leaves out the last two rounds: NewCoordinator and Ready to each worse \
                      member that is up";
        let mut reasons = self.election_point_reasons();
        let rest = self.calls() - self.election_point();
        reasons.push(Reason::new(rest, rounds));
        reasons
    }

    pub(super) fn figure_at_once_reasons(&self) -> Vec<Reason> {
        let at_once = "it asks about all failed members at once, and waits for T_o once";
        let listed = "it spends no T_p on a listed member, because its detector answers at once";
        let running = "it takes two exchanges and Ldr, all at once, and not a T_e for each running member, \
                       itself included";
        let running_by = 2.5 * self.exchange() - (self.members - self.failed) * self.formula_3_2();
        self.of_figure([
            Reason::new(self.waits() - self.unlisted() * self.timeout, at_once),
            Reason::new(-self.all_listed() * self.processing, listed),
            Reason::new(running_by, running),
        ])
    }

    pub(super) fn gain_reasons(&self) -> Vec<Reason> {
        let timeouts = "it asks about all failed members at once: it saves T_o for all of them but one \
                        also if they are not listed";
        let calls =
            "it asks and halts all running members at once, and not one call after the other";
        let calls_by = 3.0 * (self.worse() - 1.0) * self.exchange();
        self.of_figure([
            Reason::new(self.unlisted() * self.timeout - self.waits(), timeouts),
            Reason::new(calls_by, calls),
            Reason::new(self.all_listed() * self.processing, LISTED_IS_FREE),
        ])
    }

    pub(super) fn gain_over_calls_at_once_reasons(&self) -> Vec<Reason> {
        let asked = if self.winner > 1.0 { self.timeout } else { 0.0 };
        let better = asked - self.waits() - self.listed * self.timeout;
        let better_about = if self.unlisted() > 0.0 {
            "one failed member that is not listed costs T_o, so the list saves none"
        } else {
            "all calls at once cost T_o once, and not once for each failed member that is better"
        };
        let halting = if self.worse_failed > 0.0 {
            self.timeout - self.exchange()
        } else {
            0.0
        };
        let worse = halting - self.worse_listed * self.timeout;
        let worse_about = "all calls of Halt at once cost one T_o for all failed members that are worse, in place of \
             an exchange";
        self.of_figure([
            Reason::new(better, better_about),
            Reason::new(worse, worse_about),
            Reason::new(self.all_listed() * self.processing, LISTED_IS_FREE),
        ])
    }
}
