//! Who can take part: every structure of `runqueue`, the standard library's, and plug-ins.

use std::path::PathBuf;

use runqueue::hold::Keys;
use runqueue::{
    BinaryHeap, BitmapLevels, CalendarQueue, ExactTimeRing, ExactTimeRingAvx2, ExactTimeRingAvx512,
    ExactTimeRingScalar, FifoList, FourAryHeap, GavlTree, GavlTreeDelete, GavlTreePublished, Lanes,
    PairingHeap, RadixWheel, RedBlackTree, RunQueue, SkipList, SkipListMuqss, TimeRing,
};
use serde::Serialize;

use crate::course::{self, Runner};
use crate::plugin::{self, Plugged};
use crate::setting::Setting;
use crate::std_queues::{StdBTreeMap, StdBinaryHeap};
use crate::{HeatSpec, RaceError, Workload};

/// Beyond so many items in nearly the same place a calendar queue needs minutes.
const CALENDAR_TIES_MAX: u32 = 10_000;
/// Beyond so many items lanes of a fixed number are walked for minutes.
const MUQSS_ITEMS_MAX: u32 = 1_000;

/// What is known of an entrant before it races.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EntrantFacts {
    /// Its name.
    pub structure: String,
    /// Whether it promises exact order.
    pub exact: bool,
    /// Whether it can remove a queued item.
    pub can_remove: bool,
    /// "schedlab", "rust_std", or "plugin:" and its file.
    pub source: String,
    /// Why it cannot run on this machine, or nothing.
    pub left_out: String,
}

type Start = for<'s> fn(&'s Setting) -> Result<Box<dyn Runner + 's>, RaceError>;
type Needs = fn(&Setting) -> Result<u64, RaceError>;

enum Kind {
    Ours(Start, Needs),
    Plugin(plugin::Record),
}

/// Somebody who can take part.
pub struct Entrant {
    pub facts: EntrantFacts,
    kind: Kind,
}

impl Entrant {
    fn of<Q: RunQueue + 'static>(source: &str) -> Self {
        let left_out = if Q::is_here() { "" } else { "this processor cannot run it" };
        let start: Start = |setting| course::runner(setting, &|n| Ok(Q::with_capacity(n as usize)));
        let needs: Needs =
            |setting| course::bytes_needed(setting, &|n| Ok(Q::with_capacity(n as usize)));
        Entrant {
            facts: EntrantFacts {
                structure: Q::NAME.to_owned(),
                exact: Q::EXACT,
                can_remove: true,
                source: source.to_owned(),
                left_out: left_out.to_owned(),
            },
            kind: Kind::Ours(start, needs),
        }
    }

    /// One with lanes that not every processor has.
    fn with_lanes<Q: RunQueue + 'static>(lanes: Lanes, name: &str) -> Self {
        let mut entrant = Entrant::of::<Q>("schedlab");
        if !lanes.is_here() {
            entrant.facts.left_out = format!("this processor has no {name}");
        }
        entrant
    }

    fn plugged(record: plugin::Record) -> Self {
        let facts = EntrantFacts {
            structure: record.name().to_owned(),
            exact: record.is_exact(),
            can_remove: record.can_remove(),
            source: record.source(),
            left_out: String::new(),
        };
        Entrant { facts, kind: Kind::Plugin(record) }
    }

    /// Puts it at the start of a heat.
    pub fn start<'s>(&self, setting: &'s Setting) -> Result<Box<dyn Runner + 's>, RaceError> {
        match &self.kind {
            Kind::Ours(start, _) => start(setting),
            Kind::Plugin(record) => course::runner(setting, &|n| Plugged::new(record, n)),
        }
    }

    /// Bytes that its queues hold in a heat.
    pub fn bytes_needed(&self, setting: &Setting) -> Result<u64, RaceError> {
        match &self.kind {
            Kind::Ours(_, needs) => needs(setting),
            Kind::Plugin(record) => course::bytes_needed(setting, &|n| Plugged::new(record, n)),
        }
    }

    /// Why it does not take part in a heat, or nothing.
    pub fn left_out(&self, setting: &Setting, keys: Keys) -> String {
        let facts = &self.facts;
        if !facts.left_out.is_empty() {
            return facts.left_out.clone();
        }
        if setting.removes() && !facts.can_remove {
            return "it cannot remove".to_owned();
        }
        if setting.workload == Workload::Trace && !facts.exact {
            return "the recorded operations are those of an exact queue".to_owned();
        }
        let ties = keys == Keys::Ties || setting.workload == Workload::ForkBurst;
        if facts.structure == CalendarQueue::NAME && ties && setting.n > CALENDAR_TIES_MAX {
            return format!("it needs minutes where more than {CALENDAR_TIES_MAX} items tie");
        }
        if facts.structure == SkipListMuqss::NAME && setting.n > MUQSS_ITEMS_MAX {
            return format!("it needs minutes beyond {MUQSS_ITEMS_MAX} items");
        }
        String::new()
    }
}

/// Everybody there is without plug-ins, in the order of tables.
fn ours() -> Vec<Entrant> {
    let mut std_heap = Entrant::of::<StdBinaryHeap>("rust_std");
    std_heap.facts.can_remove = false;
    vec![
        Entrant::of::<FifoList>("schedlab"),
        Entrant::of::<BitmapLevels>("schedlab"),
        Entrant::of::<TimeRing>("schedlab"),
        Entrant::of::<RedBlackTree>("schedlab"),
        Entrant::of::<GavlTree>("schedlab"),
        Entrant::of::<GavlTreeDelete>("schedlab"),
        Entrant::of::<GavlTreePublished>("schedlab"),
        Entrant::of::<BinaryHeap>("schedlab"),
        Entrant::of::<FourAryHeap>("schedlab"),
        Entrant::of::<PairingHeap>("schedlab"),
        Entrant::of::<SkipList>("schedlab"),
        Entrant::of::<SkipListMuqss>("schedlab"),
        Entrant::of::<CalendarQueue>("schedlab"),
        Entrant::of::<RadixWheel>("schedlab"),
        Entrant::of::<StdBTreeMap>("rust_std"),
        std_heap,
        Entrant::of::<ExactTimeRing>("schedlab"),
        Entrant::of::<ExactTimeRingScalar>("schedlab"),
        Entrant::with_lanes::<ExactTimeRingAvx2>(Lanes::Avx2, "AVX2"),
        Entrant::with_lanes::<ExactTimeRingAvx512>(Lanes::Avx512, "AVX-512"),
    ]
}

/// What is known of everybody, and of the queues of these plug-ins.
///
/// # Errors
///
/// [`RaceError::Plugin`] if one of them is none, [`RaceError::SameName`].
pub fn entrants(plugins: &[PathBuf]) -> Result<Vec<EntrantFacts>, RaceError> {
    Ok(everybody(plugins)?.into_iter().map(|entrant| entrant.facts).collect())
}

fn everybody(plugins: &[PathBuf]) -> Result<Vec<Entrant>, RaceError> {
    let mut entrants = ours();
    for path in plugins {
        entrants.extend(plugin::load(path)?.into_iter().map(Entrant::plugged));
    }
    for (place, second) in entrants.iter().enumerate() {
        let name = &second.facts.structure;
        if let Some(first) = entrants[..place].iter().find(|first| first.facts.structure == *name) {
            return Err(RaceError::SameName {
                name: name.clone(),
                first: first.facts.source.clone(),
                second: second.facts.source.clone(),
            });
        }
    }
    Ok(entrants)
}

/// Those whom a heat asks for, in the order in which it names them.
pub fn asked_for(spec: &HeatSpec) -> Result<Vec<Entrant>, RaceError> {
    let mut entrants = everybody(&spec.plugins)?;
    let Some(names) = &spec.structures else { return Ok(entrants) };
    let known: Vec<&str> =
        entrants.iter().map(|entrant| entrant.facts.structure.as_str()).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(RaceError::UnknownStructure { name: unknown.clone(), known: known.join(", ") });
    }
    let place = |entrant: &Entrant| names.iter().position(|name| *name == entrant.facts.structure);
    entrants.retain(|entrant| place(entrant).is_some());
    entrants.sort_by_key(place);
    Ok(entrants)
}
