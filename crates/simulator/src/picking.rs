//! How far the CPU that acts is in picking its next task.

/// How far it is, and what it told itself meanwhile.
#[derive(Debug, Default)]
pub struct Picking {
    /// Whether CPUs decide only when they have the lock of all tasks that wait.
    decides_with_lock: bool,
    is_choosing: bool,
    is_switching: bool,
    kicks: Option<OwnKicks>,
}

/// Kicks of itself by a CPU that is choosing its next task.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnKicks {
    /// It is to pick again.
    pub always: bool,
    /// It is to pick again if it is then idle.
    pub if_idle: bool,
    /// Its task is to lose its slice.
    pub preempts: bool,
}

impl Picking {
    /// Of a kernel where CPUs decide only when they have the lock of all tasks that wait, or not.
    pub fn new(decides_with_lock: bool) -> Picking {
        Picking { decides_with_lock, ..Picking::default() }
    }

    /// Whether CPUs decide only when they have the lock of all tasks that wait.
    #[inline]
    pub fn decides_with_lock(&self) -> bool {
        self.decides_with_lock
    }

    /// Its task has blocked: what it tells itself comes after it has picked.
    pub fn begin_switch(&mut self) {
        self.is_switching = true;
    }

    /// It chooses, and so holds its own run queue's lock.
    pub fn begin_choice(&mut self) {
        (self.is_choosing, self.is_switching) = (true, true);
    }

    /// It does not choose any more, nor is it about to.
    pub fn end(&mut self) {
        (self.is_choosing, self.is_switching) = (false, false);
    }

    /// It gives its run queue up before it has switched.
    pub fn end_choice(&mut self) {
        self.is_choosing = false;
    }

    /// Whether it chooses, and so holds its own run queue's lock.
    #[inline]
    pub fn is_choosing(&self) -> bool {
        self.is_choosing
    }

    /// Whether what it tells itself comes after it has picked.
    pub fn is_switching(&self) -> bool {
        self.is_switching
    }

    /// It kicks itself meanwhile.
    pub fn kick_self(&mut self, kick: OwnKicks) {
        let kicks = self.kicks.get_or_insert_default();
        kicks.always |= kick.always;
        kicks.if_idle |= kick.if_idle;
        kicks.preempts |= kick.preempts;
    }

    /// Its kicks of itself meanwhile, if there were any.
    #[inline]
    pub fn take_kicks(&mut self) -> Option<OwnKicks> {
        self.kicks.take()
    }
}

#[cfg(test)]
mod tests {
    //! Goal: kicks are kept until they are taken, once.

    use super::*;

    #[test]
    fn kicks_add_up_until_they_are_taken() {
        let mut picking = Picking::default();
        picking.begin_choice();
        picking.kick_self(OwnKicks { if_idle: true, ..OwnKicks::default() });
        picking.kick_self(OwnKicks { always: true, preempts: true, ..OwnKicks::default() });
        picking.end();
        let kicks = picking.take_kicks().expect("there are kicks");
        assert!(kicks.always && kicks.if_idle && kicks.preempts);
        assert!(
            picking.take_kicks().is_none() && !picking.is_switching() && !picking.is_choosing()
        );
    }
}
