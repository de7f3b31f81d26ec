//! Copies of a policy: each has its own globals, with tunables and arrays put in.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytecode::{Data, Object};

use crate::loader::{Call, Entry, Topology, Write};
use crate::tunable::Tunable;
use crate::{Policy, PolicyError, table};

/// One copy of a policy: its object, and what its variables begin with.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The object itself.
    pub object: Arc<Object>,
    /// The first bytes of each section of variables, in the object's order; all others are 0.
    pub data: Vec<Vec<u8>>,
    /// What is written behind them.
    pub writes: Vec<Write>,
    /// The operations' table, as an index of the object's.
    pub operations: usize,
    /// What its maps begin with.
    pub entries: Vec<Entry>,
    /// What is called before it is attached.
    pub calls: Vec<Call>,
    /// Whether it came as an object.
    pub is_built: bool,
}

impl Loaded {
    /// Whether its operations take cids, places of CPUs in the topology, where others take CPUs.
    pub fn takes_cids(&self) -> bool {
        self.object.tables[self.operations].of == table::TYPES[1]
    }
}

impl Policy {
    /// Makes a copy that shares no variable with any other.
    ///
    /// `tunables` are set by name, the rest keep their defaults. `arrays` are offers: the
    /// policy gets those that it declares, as little-endian bytes, and zeros after their end. What
    /// its loader's file says comes between: of `machine`, over arrays, below tunables.
    ///
    /// # Errors
    ///
    /// [`PolicyError`] if a tunable is unknown or its value does not fit, if an array is too long,
    /// or if its loader's file asks for what cannot be.
    pub fn load(
        &self,
        tunables: &BTreeMap<String, i64>,
        arrays: &[(&str, &[u8])],
        machine: &Topology,
    ) -> Result<Loaded, PolicyError> {
        let mut image = self.image.to_vec();
        for (name, value) in tunables {
            let tunable = self.tunable(name)?;
            self.set_tunable(tunable, *value, &mut image)?;
        }
        for (name, bytes) in arrays {
            self.set_array(name, bytes, &mut image)?;
        }
        let mut data = sections(&self.object, &image);
        let (operations, is_built) = (self.operations, self.is_built);
        let Some(loader) = &self.loader else {
            let (object, entries, calls) = (self.object.clone(), Vec::new(), Vec::new());
            let writes = Vec::new();
            return Ok(Loaded { object, data, writes, operations, entries, calls, is_built });
        };
        let plan = loader.plan(&self.object, machine)?;
        for (bytes, section) in data.iter_mut().zip(&plan.object.data) {
            bytes.resize(section.bytes.len(), 0);
        }
        let writes = plan.write(&mut data, tunables);
        table::check(&self.name, &plan.object, &plan.object.tables[operations])?;
        let (object, entries, calls) = (Arc::new(plan.object), plan.entries, plan.calls);
        Ok(Loaded { object, data, writes, operations, entries, calls, is_built })
    }

    fn tunable(&self, name: &str) -> Result<&Tunable, PolicyError> {
        let found = self.tunables.iter().find(|tunable| tunable.name == name);
        found.ok_or_else(|| PolicyError::UnknownTunable {
            policy: self.name.clone(),
            name: name.to_owned(),
            valid: self.tunables.iter().map(|tunable| tunable.name.clone()).collect(),
        })
    }

    fn set_tunable(
        &self,
        tunable: &Tunable,
        value: i64,
        image: &mut [u8],
    ) -> Result<(), PolicyError> {
        let (min, max) = tunable.range();
        if !(min..=max).contains(&i128::from(value)) {
            return Err(PolicyError::TunableRange {
                policy: self.name.clone(),
                value,
                tunable: Box::new(tunable.clone()),
            });
        }
        image[tunable.image_offset..tunable.image_offset + tunable.size]
            .copy_from_slice(&value.to_le_bytes()[..tunable.size]);
        Ok(())
    }

    fn set_array(&self, name: &str, bytes: &[u8], image: &mut [u8]) -> Result<(), PolicyError> {
        let Some(array) = self.arrays.iter().find(|array| array.name == name) else {
            return Ok(());
        };
        if bytes.len() as u64 > array.size {
            return Err(PolicyError::ArraySize {
                policy: self.name.clone(),
                array: name.to_owned(),
                size: array.size,
                given: bytes.len(),
            });
        }
        image[array.image_offset..array.image_offset + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

/// The image cut into the first bytes of the object's sections of variables.
fn sections(object: &Object, image: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = image;
    let section = |data: &Data| {
        let (bytes, after) = rest.split_at(data.bytes.len());
        rest = after;
        bytes.to_vec()
    };
    object.data.iter().map(section).collect()
}
