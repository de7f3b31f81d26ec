//! What a policy's own instructions take, where the machine says what they cost.
//!
//! They are charged to the CPU that runs them whenever the policy calls the kernel, so that what
//! the call does happens at its time, and at the end of each operation. Between two calls nobody
//! can see how far an operation is: its locks are taken and given up by calls, and so is the time
//! read (see `world`). What is less than a nanosecond is charged with what comes next.

use bytecode::Executed;
use scenario::machine::PolicyCosts;
use serde::Serialize;

/// What a policy executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PolicyExecuted {
    /// Instructions of its own.
    pub instructions: u64,
    /// Those of them that divide.
    pub divisions: u64,
    /// Those of them that call a function of the kernel.
    pub calls: u64,
    /// How many more they were, if the machine has 32 bits, for numbers of 64.
    pub wide: u64,
}

/// What the policy's instructions have taken so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct PolicyTime {
    costs: PolicyCosts,
    /// What the machine that runs them had executed when they were charged last.
    charged: Executed,
    /// Picoseconds that are not charged yet, fewer than a nanosecond has.
    left_ps: u64,
    /// All that was charged.
    total: PolicyExecuted,
}

impl PolicyTime {
    /// Nothing, on a machine where they cost so much.
    pub fn new(costs: PolicyCosts) -> PolicyTime {
        PolicyTime { costs, ..PolicyTime::default() }
    }

    /// What they cost.
    pub fn costs(&self) -> PolicyCosts {
        self.costs
    }

    /// Whether they take time.
    pub fn is_taken(&self) -> bool {
        self.costs.any()
    }

    /// An operation begins, which counts its instructions from 0.
    pub fn begin(&mut self) {
        self.charged.instructions = 0;
    }

    /// Another machine runs them from here on, which counts everything from 0.
    pub fn begin_anew(&mut self) {
        self.charged = Executed::default();
    }

    /// Takes back what was charged since it was this.
    pub fn forget_since(&mut self, before: PolicyTime) {
        (self.total, self.left_ps) = (before.total, before.left_ps);
    }

    /// All that was charged, if they take time.
    pub fn total(&self) -> Option<PolicyExecuted> {
        self.is_taken().then_some(self.total)
    }

    /// The nanoseconds of what was executed since the last time.
    pub fn charge(&mut self, taken: Executed) -> u64 {
        let since = Executed {
            instructions: taken.instructions - self.charged.instructions,
            divisions: taken.divisions - self.charged.divisions,
            calls: taken.calls - self.charged.calls,
            wide: taken.wide - self.charged.wide,
        };
        self.charged = taken;
        self.total.instructions += since.instructions;
        self.total.divisions += since.divisions;
        self.total.calls += since.calls;
        self.total.wide += since.wide;
        let PolicyCosts { instruction_ps, division_ps, call_ps, wide_ps } = self.costs;
        let ps = self.left_ps
            + since.instructions * instruction_ps
            + since.divisions * division_ps
            + since.calls * call_ps
            + since.wide * wide_ps;
        self.left_ps = ps % 1000;
        ps / 1000
    }
}

#[cfg(test)]
mod tests {
    //! Goal: each picosecond is charged once, however often it is charged.

    use super::*;

    #[test]
    fn what_is_less_than_a_nanosecond_is_charged_with_what_comes_next() {
        let costs =
            PolicyCosts { instruction_ps: 301, division_ps: 7_000, call_ps: 2_500, wide_ps: 900 };
        let mut time = PolicyTime::new(costs);
        let taken = |instructions| Executed {
            instructions,
            divisions: instructions / 10,
            calls: instructions / 4,
            wide: instructions / 2,
        };
        let in_parts: u64 = (1..=1000).map(|so_far| time.charge(taken(so_far))).sum();
        let ps = 1000 * 301 + 100 * 7_000 + 250 * 2_500 + 500 * 900;
        assert_eq!((in_parts, time.left_ps), (ps / 1000, ps % 1000));
        let total = PolicyExecuted { instructions: 1000, divisions: 100, calls: 250, wide: 500 };
        assert_eq!(time.total(), Some(total));
        time.begin();
        assert_eq!(time.charge(Executed { instructions: 4, ..taken(1000) }), 1);
        assert_eq!(PolicyTime::default().total(), None);
    }
}
