//! Entries that come one after the other while a run goes on, and are read in that order when it
//! is over.
//!
//! However many there are, a record takes the memory of one block: entries are written as small
//! numbers, most of them differences from the entry before, and a block that is full goes to the
//! [`Spool`] of the run.

mod numbers;
mod spool;

pub use numbers::{put, put_after, put_beside, take, take_after, take_beside};
pub use spool::{RecordError, Spool};

use serde::ser::{Error, SerializeSeq};
use serde::{Serialize, Serializer};
use spool::{Chain, ChainReader, ChainWriter};
use std::fmt;
use std::marker::PhantomData;

/// The most bytes that an entry may be written in.
const ENTRY_BYTES_MAX: usize = 40;

/// What a record can be of.
pub trait Recordable: Copy {
    /// What those before leave behind, from which the next differs little.
    type Before: fmt::Debug + Default;

    /// Appends the entry in at most 40 bytes.
    fn write(self, before: &mut Self::Before, bytes: &mut Vec<u8>);

    /// Takes what [`Recordable::write`] appended from the front.
    fn read(before: &mut Self::Before, bytes: &mut &[u8]) -> Self;
}

/// A record that is being written.
#[derive(Debug)]
pub struct Recording<T: Recordable> {
    chain: ChainWriter,
    before: T::Before,
    len: u64,
}

impl<T: Recordable> Recording<T> {
    /// Without entries, in the spool of a run.
    pub fn new(spool: &Spool) -> Self {
        Recording { chain: ChainWriter::new(spool), before: T::Before::default(), len: 0 }
    }

    /// Appends an entry. It may get lost, which the spool knows.
    pub fn push(&mut self, entry: T) {
        entry.write(&mut self.before, self.chain.room_for(ENTRY_BYTES_MAX));
        self.len += 1;
    }

    /// The whole record.
    pub fn finish(self) -> Record<T> {
        let (spool, chain) = self.chain.finish();
        Record { spool, parts: vec![(chain, self.len)], entries: PhantomData }
    }

    /// What it takes of memory.
    #[cfg(test)]
    pub fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.chain.held_bytes()
    }
}

/// Entries in the order in which they came. Copies share what is written.
#[derive(Clone)]
pub struct Record<T> {
    spool: Spool,
    /// Each with its number of entries.
    parts: Vec<(Chain, u64)>,
    entries: PhantomData<fn() -> T>,
}

impl<T: Recordable> Record<T> {
    /// How many entries there are.
    pub fn len(&self) -> u64 {
        self.parts.iter().map(|(_, len)| len).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All entries, decoded one by one. What cannot be read is the last item.
    pub fn iter(&self) -> impl Iterator<Item = Result<T, RecordError>> + '_ {
        let parts = self.parts.iter();
        let mut entries = parts.flat_map(|&(chain, len)| Entries::of(&self.spool, chain, len));
        let mut has_failed = false;
        std::iter::from_fn(move || {
            let entry = if has_failed { None } else { entries.next() };
            has_failed |= matches!(entry, Some(Err(_)));
            entry
        })
    }

    /// All entries at once: as much memory as they take.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn to_vec(&self) -> Result<Vec<T>, RecordError> {
        self.iter().collect()
    }

    /// Has the entries of `later`, a record of the same run, follow.
    pub fn append(&mut self, later: Record<T>) {
        self.parts.extend(later.parts);
    }
}

/// Those that are still to be read of one part.
struct Entries<T: Recordable> {
    chain: ChainReader,
    before: T::Before,
    left: u64,
}

impl<T: Recordable> Entries<T> {
    fn of(spool: &Spool, chain: Chain, left: u64) -> Self {
        Entries { chain: ChainReader::new(spool, chain), before: T::Before::default(), left }
    }
}

impl<T: Recordable> Iterator for Entries<T> {
    type Item = Result<T, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some(self.chain.read(|bytes| T::read(&mut self.before, bytes)))
    }
}

/// Equal if all entries are; what cannot be read equals nothing.
impl<T: Recordable + PartialEq> PartialEq for Record<T> {
    fn eq(&self, other: &Self) -> bool {
        let are_equal = |(one, other)| matches!((one, other), (Ok(a), Ok(b)) if a == b);
        self.len() == other.len() && self.iter().zip(other.iter()).all(are_equal)
    }
}

impl<T: Recordable + fmt::Debug> fmt::Debug for Record<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T: Recordable + Serialize> Serialize for Record<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(usize::try_from(self.len()).ok())?;
        for entry in self.iter() {
            list.serialize_element(&entry.map_err(S::Error::custom)?)?;
        }
        list.end()
    }
}

#[cfg(test)]
mod tests {
    //! Goal: what is recorded is read again, however much it is, and what cannot be kept is told.
    //! Method: random entries; stores that are full, or forget.

    use super::spool::{BLOCK_BYTES, MEMORY_BYTES_MAX, Store};
    use super::*;
    use crate::observation::{Allowed, Event, Observation};
    use crate::queue_record::QueueOperation;
    use crate::recorder::{Stay, Wakeup};
    use proptest::prelude::*;
    use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};

    /// Keeps bytes up to a number of them, and gives back those before a place.
    struct Limited {
        bytes: Cursor<Vec<u8>>,
        room: u64,
        readable: u64,
    }

    fn limited(room: u64, readable: u64) -> Limited {
        Limited { bytes: Cursor::default(), room, readable }
    }

    impl Store for Limited {
        fn held_bytes(&mut self) -> usize {
            self.bytes.get_ref().len()
        }
    }

    impl Read for Limited {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            match self.bytes.position() < self.readable {
                true => self.bytes.read(bytes),
                false => Err(io::Error::other("a bad sector")),
            }
        }
    }

    impl Write for Limited {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self.bytes.position() + bytes.len() as u64 <= self.room {
                true => self.bytes.write(bytes),
                false => Err(io::ErrorKind::StorageFull.into()),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Seek for Limited {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.bytes.seek(to)
        }
    }

    fn stay(number: u64) -> Stay {
        (1000 * number, 1000 * number + 300, (number % 7) as u32, (number % 400) as u32 + 1)
    }

    /// Stays in this spool, as many as fill so many blocks at least.
    fn recorded(spool: &Spool, blocks: u64) -> (Record<Stay>, Vec<Stay>) {
        let mut recording = Recording::new(spool);
        let stays: Vec<Stay> = (0..blocks * BLOCK_BYTES as u64 / 5).map(stay).collect();
        stays.iter().for_each(|&stay| recording.push(stay));
        (recording.finish(), stays)
    }

    fn event() -> impl Strategy<Value = Event> {
        let allowed = prop_oneof![
            any::<u32>().prop_map(Allowed::Set),
            any::<u32>().prop_map(Allowed::Change),
            Just(Allowed::All),
        ];
        prop_oneof![
            any::<(u32, u32)>().prop_map(|(template, task)| Event::Created { template, task }),
            any::<u32>().prop_map(|task| Event::Woke { task }),
            any::<(u32, u32)>().prop_map(|(task, cpu)| Event::Taken { task, cpu }),
            any::<(u32, u32, bool)>().prop_map(|(task, cpu, waits)| Event::Left {
                task,
                cpu,
                waits
            }),
            any::<u32>().prop_map(|cpu| Event::Looks { cpu }),
            any::<u32>().prop_map(|cpu| Event::Idle { cpu }),
            any::<(u32, bool)>().prop_map(|(cpu, online)| Event::Hotplug { cpu, online }),
            (any::<u32>(), allowed).prop_map(|(task, allowed)| Event::Affinity { task, allowed }),
        ]
    }

    fn operation() -> impl Strategy<Value = QueueOperation> {
        prop_oneof![
            any::<(u32, u64)>().prop_map(|(task, key)| QueueOperation::Push { task, key }),
            Just(QueueOperation::Pop),
            any::<u32>().prop_map(|task| QueueOperation::Remove { task }),
        ]
    }

    fn time_ns() -> impl Strategy<Value = u64> {
        prop_oneof![0..1_000_000_u64, any::<u64>(), Just(u64::MAX)]
    }

    type Any = (Stay, Wakeup, Observation, QueueOperation);

    fn any_of_each() -> impl Strategy<Value = Any> {
        let stay = (time_ns(), time_ns(), any::<u32>(), any::<u32>());
        let wakeup = (time_ns(), any::<u32>(), any::<u32>(), any::<bool>());
        let observation =
            (time_ns(), event()).prop_map(|(at_ns, event)| Observation { at_ns, event });
        (stay, wakeup, observation, operation())
    }

    /// An entry takes no more bytes than there is room for.
    fn push<T: Recordable>(recording: &mut Recording<T>, entry: T) {
        let mut bytes = Vec::new();
        entry.write(&mut T::Before::default(), &mut bytes);
        assert!(bytes.len() <= ENTRY_BYTES_MAX);
        recording.push(entry);
    }

    proptest! {
        #[test]
        fn records_that_share_a_spool_are_read_as_they_were_written(
            all in prop::collection::vec(any_of_each(), 0..900)
        ) {
            let spool = Spool::default();
            let mut stays = Recording::new(&spool);
            let mut wakeups = Recording::new(&spool);
            let mut observations = Recording::new(&spool);
            let mut operations = Recording::new(&spool);
            for &(stay, wakeup, observation, operation) in &all {
                push(&mut stays, stay);
                push(&mut wakeups, wakeup);
                push(&mut observations, observation);
                push(&mut operations, operation);
            }
            let (stays, wakeups) = (stays.finish(), wakeups.finish());
            let (observations, operations) = (observations.finish(), operations.finish());
            spool.check().expect("there is room");
            prop_assert_eq!(stays.len(), all.len() as u64);
            let read = stays.iter().zip(wakeups.iter()).zip(observations.iter());
            let read: Result<Vec<Any>, RecordError> = read
                .zip(operations.iter())
                .map(|(((one, two), three), four)| Ok((one?, two?, three?, four?)))
                .collect();
            prop_assert_eq!(read.expect("readable"), all);
        }
    }

    #[test]
    fn a_long_record_goes_to_a_file_and_is_read_from_there() {
        let spool = Spool::default();
        let (record, stays) = recorded(&spool, 400);
        spool.check().expect("there is room");
        assert!(spool.written_bytes() > MEMORY_BYTES_MAX as u64);
        assert_eq!(spool.held_bytes(), 0, "all of it is in the file");
        assert!(record.to_vec().expect("readable") == stays);
        assert!(record.clone() == record);
        assert!(record != recorded(&Spool::default(), 399).0);
    }

    #[test]
    fn records_follow_each_other() {
        let spool = Spool::default();
        let (mut record, mut stays) = recorded(&spool, 2);
        record.append(recorded(&spool, 0).0);
        let (later, others) = recorded(&spool, 3);
        record.append(later);
        stays.extend(others);
        assert_eq!(record.len(), stays.len() as u64);
        assert!(record.to_vec().expect("readable") == stays);
        let written = serde_json::to_string(&record).expect("readable");
        assert!(written == serde_json::to_string(&stays).expect("a list"));
        assert!(recorded(&spool, 0).0.is_empty());
    }

    #[test]
    fn a_short_record_needs_no_folder_for_temporary_files_and_a_long_one_says_that_there_is_none() {
        let nowhere = |blocks| {
            let spool = Spool::without_folder();
            let (record, _) = recorded(&spool, blocks);
            (spool.check(), record)
        };
        let (checked, short) = nowhere(100);
        checked.expect("it stays in memory");
        assert_eq!(short.to_vec().expect("readable").len() as u64, short.len());
        let (checked, _) = nowhere(400);
        let told = checked.expect_err("there is no folder").to_string();
        assert!(told.contains("cannot be written to a temporary file in "), "{told}");
        assert!(told.contains("No such file or directory"), "{told}");
        assert!(told.contains("\nhint: "), "{told}");
    }

    #[test]
    fn what_finds_no_room_is_told_once() {
        let spool = Spool::over(limited(3 * BLOCK_BYTES as u64, u64::MAX));
        recorded(&spool, 2);
        assert!(!spool.has_failed());
        recorded(&spool, 9);
        assert!(spool.has_failed());
        let told = spool.check().expect_err("there is no room").to_string();
        assert!(told.contains("no storage space"), "{told}");
        spool.check().expect("it was told");
    }

    #[test]
    fn what_cannot_be_read_is_the_last_item() {
        let spool = Spool::over(limited(u64::MAX, 2 * BLOCK_BYTES as u64));
        let (mut record, stays) = recorded(&spool, 5);
        record.append(recorded(&spool, 1).0);
        let read: Vec<_> = record.iter().collect();
        assert!(read.len() < stays.len());
        let (last, others) = read.split_last().expect("some");
        let told = last.as_ref().expect_err("it cannot be read").to_string();
        assert!(told.contains("cannot be read from a temporary file"), "{told}");
        assert!(told.contains("a bad sector"), "{told}");
        assert!(others.iter().zip(&stays).all(|(read, stay)| read.as_ref().ok() == Some(stay)));
        assert!(record.to_vec().is_err());
        assert!(record.clone() != record);
        assert!(serde_json::to_string(&record).is_err());
    }
}
