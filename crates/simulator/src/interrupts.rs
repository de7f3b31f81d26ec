//! Interrupts between CPUs, and those of the background.

use crate::agenda::NEVER_NS;
use crate::core::Core;
use crate::cpu::{Activity, Await, Spent};
use crate::timer::Timer;

impl Core<'_> {
    /// Makes a CPU pick again: at once if it is the active one, else by an interrupt
    /// (`resched_curr`).
    pub fn resched(&mut self, cpu: usize) {
        if cpu == self.here() {
            self.cpus[cpu].need_resched = true;
        } else {
            self.interrupt(cpu);
        }
    }

    /// Sends a CPU an interrupt that makes it pick again, unless one is under way already.
    #[inline]
    pub fn interrupt(&mut self, cpu: usize) {
        if self.cpus[cpu].when(Await::Interrupt).at_ns == NEVER_NS {
            self.send_interrupt(cpu);
        }
    }

    fn send_interrupt(&mut self, cpu: usize) {
        if self.cpus[cpu].activity == Activity::Offline {
            return; // It hears nothing.
        }
        if cpu != self.here() {
            self.charge(Spent::Interrupt, self.cpus.costs().ipi_send_ns);
        }
        self.recorder.interrupt();
        // It is inside something until its clock: nothing can come to it before.
        let at_ns = (self.now_ns() + self.cpus.costs().ipi_ns).max(self.cpus[cpu].clock_ns());
        self.cpus[cpu].set_when(Await::Interrupt, self.time.turn(at_ns));
        self.publish(cpu);
    }

    // ---- the background ---------------------------------------------------------------------

    /// Sets when each source interrupts its CPU for the first time.
    pub fn begin_background(&mut self) {
        for source in self.background.sources() {
            self.await_background(source, 0);
        }
    }

    /// Sets when a source interrupts its CPU next, after it has at `last_ns`.
    pub fn await_background(&mut self, source: u32, last_ns: u64) {
        let at_ns = self.background.next_ns(source, last_ns);
        self.time.add_timer(at_ns, Timer::Background(source));
    }

    /// The active CPU takes an interrupt of a source.
    pub fn take_background(&mut self, source: u32) {
        self.recorder.background_interrupt();
        self.charge(Spent::Interrupted, self.background.takes_ns(source));
    }
}
