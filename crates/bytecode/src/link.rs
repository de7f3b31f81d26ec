//! An object becomes a program: what it refers to has an address, and what it jumps to is there.
//!
//! Only functions that can be reached from those that are asked for are taken. What the world
//! lacks is refused here if a way leads to it; a way that a program itself closes, by asking first
//! whether a field or function exists, is no way. That needs constants to be followed through
//! registers, and no more.

mod frames;

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::iter::Peekable;

use crate::btf::{Type, essential_name};
use crate::error::{LinkError, Place};
use crate::instruction::{Callee, Instruction, Operand, Register, SLOT_BYTES, Size, wide_number};
use crate::maps::kind;
use crate::notes::{FieldRelocation, Line, Question};
use crate::object_file::{Object, Reference};
use crate::program::{
    Elements, Extent, FUNCTIONS_BEGIN, Holding, LinkedFunction, Program, Rows, Shortcut,
};
use crate::structures::{Answer, Structures, Widths};
use crate::ways::{Constant, Constants, Written, each_way, each_way_apart};

/// Instructions that a program may have, as in the kernel (include/linux/bpf.h,
/// `BPF_COMPLEXITY_LIMIT_INSNS`).
const INSTRUCTIONS_MAX: usize = 1_000_000;

/// What a program may ask of the world it runs in.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// Its structures and enumerations.
    pub structures: Structures,
    /// The numbers of its calls by those of the kernel's helpers.
    pub helpers: BTreeMap<i32, usize>,
    /// The numbers of its calls by name.
    pub functions: BTreeMap<String, usize>,
    /// Calls whose answer lies in the memory.
    pub shortcuts: BTreeMap<usize, Shortcut>,
    /// What calls do to what a program holds, which strict runs follow.
    pub holdings: BTreeMap<usize, Holding>,
    /// Fields, by their offsets in these rows, that programs may write although the rows lie where
    /// they may only read.
    pub written_fields: Vec<(Rows, u32, Size)>,
    /// Addresses of variables by name, those of the kernel's configuration included.
    pub variables: BTreeMap<String, u64>,
    /// The address of 8 bytes that are 0, which weak variables of the kernel's configuration are.
    pub zero: u64,
}

/// Where an object's own things lie, in the object's order.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// The address of each section of variables.
    pub data: Vec<u64>,
    /// What stands for each map, as an address or otherwise.
    pub maps: Vec<u64>,
    /// What never changes, such as read-only variables, by its address: a way that it closes is no
    /// way, as for a kernel's verifier.
    pub constants: Vec<Constant>,
    /// The values of maps, by what stands for the map, that [`Shortcut::Element`] finds. All of
    /// them lie where programs may write, and such a call gives the address of one, or 0.
    pub elements: BTreeMap<u64, Elements>,
    /// How many bytes a program may write where calls with [`Shortcut::Cell`] lead, by what stands
    /// for the column, which is the first argument. They give an address of as many, or 0.
    pub cells: BTreeMap<u64, u32>,
    /// The upper half of what a cast of its arena's addresses for user space gives, if it has an
    /// arena.
    pub user_upper: Option<u32>,
    /// Functions that a kernel gives a stack for each frame.
    pub apart: BTreeSet<usize>,
}

impl Program {
    /// Links the functions of `object` whose numbers are `roots`, and all that they call.
    ///
    /// # Errors
    ///
    /// [`LinkError`] with function and line, if the code is malformed or the world lacks what a
    /// way leads to.
    pub fn link(
        object: &Object,
        roots: &[usize],
        world: &World,
        addresses: &Addresses,
    ) -> Result<Program, LinkError> {
        let mut link = Link {
            object,
            world,
            addresses,
            program: Program {
                shortcuts: world.shortcuts.clone(),
                elements: addresses.elements.clone(),
                cells: addresses.cells.clone(),
                written_fields: world.written_fields.clone(),
                variables: variables(object, addresses),
                holdings: world.holdings.clone(),
                ..Program::default()
            },
            numbers: BTreeMap::new(),
            missing: BTreeMap::new(),
            lines: Vec::new(),
        };
        let catchers = catchers(object);
        for &root in roots {
            let number = link.number(root);
            let Some(&name) = catchers.get(&*object.functions[root].name) else { continue };
            let catcher = object.functions.iter().position(|one| one.name == name);
            let catcher = catcher.ok_or_else(|| {
                let (place, name) =
                    (link.place(root, object.functions[root].first), name.to_owned());
                LinkError::Missing { place, name }
            })?;
            let catcher = link.number(catcher);
            link.program.catchers.insert(number, catcher);
        }
        // More are added while functions are looked at.
        let mut next = 0;
        while next < link.program.functions.len() {
            link.function(next)?;
            next += 1;
        }
        link.check_stack()?;
        link.program.lines = link.lines.into_iter().collect();
        Ok(link.program)
    }
}

impl Object {
    /// Whether one of these functions, or of those that they lead to, refers to an arena, by itself
    /// or by variables there. As a kernel counts it, code that is never reached does so, too.
    pub fn uses_arena(&self, roots: impl IntoIterator<Item = usize>) -> bool {
        let mut found: BTreeSet<usize> = roots.into_iter().collect();
        let mut next: Vec<usize> = found.iter().copied().collect();
        while let Some(function) = next.pop() {
            let of = &self.functions[function];
            let (slots, references) =
                (of.first..of.first + of.slots, &self.code[of.code].references);
            if references.range(slots.clone()).any(|(_, found)| self.is_of_arena(found)) {
                return true;
            }
            let leads_to = slots.filter_map(|slot| self.leads_to(function, slot));
            next.extend(leads_to.filter(|&callee| found.insert(callee)));
        }
        false
    }

    fn is_of_arena(&self, reference: &Reference) -> bool {
        match *reference {
            Reference::Map(map) => self.maps[map].kind == kind::ARENA,
            Reference::Data { section, .. } => self.data[section].is_of_arena(),
            _ => false,
        }
    }

    /// The function that an instruction calls, or of which it takes the address.
    fn leads_to(&self, function: usize, slot: u32) -> Option<usize> {
        let code = &self.code[self.functions[function].code];
        match Instruction::decode(&code.bytes[slot as usize * SLOT_BYTES..]).ok()? {
            Instruction::Call(Callee::Function(distance)) => {
                self.function_from(function, slot, call_bytes(distance))
            }
            Instruction::LoadWide { low, .. } if code.references.contains_key(&slot) => {
                self.function_from(function, slot, low.into())
            }
            _ => None,
        }
    }

    /// The function that begins so many bytes behind what an instruction refers to, or behind
    /// itself if it refers to nothing.
    fn function_from(&self, function: usize, slot: u32, bytes: i64) -> Option<usize> {
        let own = self.functions[function].code;
        let (code, from) = match self.code[own].references.get(&slot) {
            Some(&Reference::Code { code, offset }) => (code, offset),
            None => (own, u64::from(slot) * SLOT_BYTES as u64),
            Some(_) => return None,
        };
        let offset = from.checked_add_signed(bytes)?;
        let slot = u32::try_from(offset / SLOT_BYTES as u64).ok()?;
        offset.is_multiple_of(SLOT_BYTES as u64).then(|| self.function_at(code, slot))?
    }
}

/// How far a call leads, which is counted from the next slot.
fn call_bytes(distance: i32) -> i64 {
    (i64::from(distance) + 1) * SLOT_BYTES as i64
}

/// Which function catches exceptions of which, by their names. Source: Linux,
/// kernel/bpf/verifier.c, `bpf_find_exception_callback_insn_off`.
fn catchers(object: &Object) -> BTreeMap<&str, &str> {
    let mut found = BTreeMap::new();
    for (_, tag) in object.btf.types() {
        if let Type::DeclarationTag { name, of, component: None } = tag
            && let Some(catcher) = name.strip_prefix("exception_callback:")
            && let Ok(Type::Function { name, .. }) = object.btf.get(*of)
        {
            found.insert(&**name, catcher);
        }
    }
    found
}

/// The variables of an object by their addresses. What no name has of a section is one, too: texts,
/// and tables that a compiler makes.
fn variables(object: &Object, addresses: &Addresses) -> BTreeMap<u64, Extent> {
    let mut found = BTreeMap::new();
    for (data, &begin) in object.data.iter().zip(&addresses.data) {
        let mut named: Vec<(u64, u64)> = vec![(data.len as u64, 0)];
        for (name, variable) in &data.variables {
            let extent = Extent { bytes: variable.bytes, name: name.clone() };
            found.insert(begin + variable.offset, extent);
            named.push((variable.offset, variable.bytes));
        }
        named.sort_unstable();
        let mut at = 0;
        for (offset, bytes) in named {
            if offset > at {
                let extent = Extent { bytes: offset - at, name: data.name.clone() };
                found.entry(begin + at).or_insert(extent);
            }
            at = at.max(offset.saturating_add(bytes));
        }
    }
    found
}

struct Link<'a> {
    object: &'a Object,
    world: &'a World,
    addresses: &'a Addresses,
    program: Program,
    /// Numbers in the program by those in the object.
    numbers: BTreeMap<usize, usize>,
    /// Why an instruction cannot run, by its place in the program.
    missing: BTreeMap<usize, LinkError>,
    /// Beginnings of lines, in the order of their places in the program.
    lines: Vec<(usize, Line)>,
}

/// What an instruction refers to.
struct Referred<'a> {
    field: Option<&'a FieldRelocation>,
    reference: Option<Reference>,
}

impl Link<'_> {
    /// The number that a function of the object has in the program.
    fn number(&mut self, function: usize) -> usize {
        let next = self.numbers.len();
        *self.numbers.entry(function).or_insert_with(|| {
            let of = &self.object.functions[function];
            let (name, slot) = (of.name.clone(), of.first);
            self.program.functions.push(LinkedFunction { name, function, slot, first: 0, end: 0 });
            next
        })
    }

    fn function(&mut self, number: usize) -> Result<(), LinkError> {
        let of = self.program.functions[number].function;
        let function = &self.object.functions[of];
        let first = self.program.instructions.len();
        let end = first + function.slots as usize;
        if end > INSTRUCTIONS_MAX {
            return Err(LinkError::Size(INSTRUCTIONS_MAX));
        }
        let code = &self.object.code[function.code];
        let mut slot = function.first;
        let mut fields = code.notes.fields.range(slot..slot + function.slots).peekable();
        let mut references = code.references.range(slot..slot + function.slots).peekable();
        while slot < function.first + function.slots {
            // A load of 64 bits may not take its second half from the next function.
            let end = (function.first + function.slots) as usize;
            let bytes = &code.bytes[slot as usize * SLOT_BYTES..end * SLOT_BYTES];
            let decoded = Instruction::decode(bytes);
            let decoded = decoded
                .map_err(|why| LinkError::Instruction { place: self.place(of, slot), why })?;
            let field = listed_at(&mut fields, slot);
            let reference = listed_at(&mut references, slot).copied();
            let linked = self.instruction(of, slot, decoded, Referred { field, reference })?;
            self.program.instructions.push(linked);
            if decoded.slots() == 2 {
                self.program.instructions.push(Instruction::Half);
            }
            slot += decoded.slots() as u32;
        }
        let linked = &mut self.program.functions[number];
        (linked.first, linked.end) = (first, end);
        for (line_slot, line) in code.notes.lines.range(function.first..slot) {
            let at = first + (line_slot - function.first) as usize;
            self.lines.push((at, line.clone()));
        }
        self.check_jumps(of, first, end)?;
        self.check_registers(of, first, end)?;
        self.program.loop_heads.resize(end, false);
        for at in first..end {
            let target = self.program.instructions[at].target(at);
            if let Some(head) = target.filter(|&target| target <= at) {
                self.program.loop_heads[head] = true;
            }
        }
        self.follow(of, first, end)
    }

    fn place(&self, function: usize, slot: u32) -> Box<Place> {
        let of = &self.object.functions[function];
        let lines = &self.object.code[of.code].notes.lines;
        let line = lines.range(of.first..=slot).next_back().map(|(_, line)| line.clone());
        Box::new(Place { function: of.name.clone(), slot, line })
    }

    fn place_at(&self, function: usize, first: usize, at: usize) -> Box<Place> {
        self.place(function, self.object.functions[function].first + (at - first) as u32)
    }

    /// The instruction with what it refers to put in.
    fn instruction(
        &mut self,
        of: usize,
        slot: u32,
        decoded: Instruction,
        Referred { field, reference }: Referred<'_>,
    ) -> Result<Instruction, LinkError> {
        let at = self.program.instructions.len();
        if let Some(relocation) = field {
            let answer = self.world.structures.answer(&self.object.btf, relocation);
            let refused = |why| LinkError::Access { place: self.place(of, slot), why };
            return match answer.map_err(refused)? {
                Answer::Number { value, widths } => {
                    let patched = patched(decoded, relocation, value, widths);
                    let place = || self.place(of, slot);
                    patched.ok_or_else(|| match widths {
                        Some(Widths { object, world, .. }) => {
                            LinkError::Width { place: place(), object, world }
                        }
                        None => LinkError::Relocation { place: place() },
                    })
                }
                Answer::Missing { field, instead } => {
                    let place = self.place(of, slot);
                    self.missing.insert(at, LinkError::Field { place, field, instead });
                    Ok(Instruction::Missing)
                }
            };
        }
        match (decoded, reference) {
            (Instruction::LoadWide { to, kind, low, high }, _) => {
                let value = self.address(of, slot, at, reference, kind, low, high)?;
                Ok(wide(to, value))
            }
            (Instruction::Call(callee), _) => self.call(of, slot, at, callee, reference),
            (Instruction::Cast { to, from, upper }, None) => match self.addresses.user_upper {
                Some(user) => {
                    let upper = if upper == 0 { user } else { upper };
                    Ok(Instruction::Cast { to, from, upper })
                }
                None => Err(LinkError::Arena { place: self.place(of, slot) }),
            },
            (_, None) => Ok(decoded),
            _ => Err(LinkError::Relocation { place: self.place(of, slot) }),
        }
    }

    /// What a load of 64 bits from the program loads.
    #[allow(clippy::too_many_arguments)]
    fn address(
        &mut self,
        of: usize,
        slot: u32,
        at: usize,
        reference: Option<Reference>,
        kind: u8,
        low: i32,
        high: i32,
    ) -> Result<u64, LinkError> {
        let refused = |link: &Self| LinkError::Relocation { place: link.place(of, slot) };
        match reference {
            None if kind == 0 => Ok(wide_number(low, high)),
            None => Err(refused(self)),
            Some(Reference::Data { section, offset }) => {
                let base = self.addresses.data.get(section).ok_or_else(|| refused(self))?;
                Ok(base + offset)
            }
            Some(Reference::Map(map)) => {
                self.addresses.maps.get(map).copied().ok_or_else(|| refused(self))
            }
            Some(Reference::Code { .. }) => {
                let function = self.object.function_from(of, slot, low.into());
                let function =
                    function.ok_or_else(|| LinkError::Callee { place: self.place(of, slot) })?;
                Ok(FUNCTIONS_BEGIN + self.number(function) as u64)
            }
            Some(Reference::Extern(index)) => {
                let wanted = &self.object.externs[index];
                let name = essential_name(&wanted.name);
                if let Some(&address) = self.world.variables.get(name) {
                    return Ok(address);
                }
                // A program asks for the address of a function only to know whether there is one.
                if self.world.functions.contains_key(name) {
                    return Ok(1);
                }
                if !wanted.weak {
                    let (place, name) = (self.place(of, slot), name.to_owned());
                    self.missing.insert(at, LinkError::Missing { place, name });
                }
                // What a kernel was configured with is read, and 0 where it does not say.
                Ok(if wanted.configuration { self.world.zero } else { 0 })
            }
        }
    }

    fn call(
        &mut self,
        of: usize,
        slot: u32,
        at: usize,
        callee: Callee,
        reference: Option<Reference>,
    ) -> Result<Instruction, LinkError> {
        let place = || self.place(of, slot);
        let offered = |number: &usize| Ok(Instruction::Call(Callee::Offered(*number)));
        match (callee, reference) {
            (Callee::Helper(number), None) => match self.world.helpers.get(&number) {
                Some(found) => offered(found),
                None => {
                    let error = LinkError::Helper { place: place(), number };
                    self.lacks(at, error)
                }
            },
            (_, Some(Reference::Extern(index))) => {
                let name = essential_name(&self.object.externs[index].name);
                match self.world.functions.get(name) {
                    Some(found) => offered(found),
                    None => {
                        let name = name.to_owned();
                        let error = LinkError::Missing { place: place(), name };
                        self.lacks(at, error)
                    }
                }
            }
            (Callee::Function(distance), _) => {
                let function = self.object.function_from(of, slot, call_bytes(distance));
                let function = function.ok_or_else(|| LinkError::Callee { place: place() })?;
                Ok(Instruction::Call(Callee::Function(self.number(function) as i32)))
            }
            _ => Err(LinkError::Callee { place: place() }),
        }
    }

    fn lacks(&mut self, at: usize, error: LinkError) -> Result<Instruction, LinkError> {
        self.missing.insert(at, error);
        Ok(Instruction::Missing)
    }

    /// Jumps lead to instructions of the same function, and nothing runs out of it.
    fn check_jumps(&self, of: usize, first: usize, end: usize) -> Result<(), LinkError> {
        for at in first..end {
            let of_slot = &self.program.instructions[at];
            if !of_slot.is_jump() {
                continue;
            }
            let target = of_slot.target(at).filter(|target| (first..end).contains(target));
            if target.is_none_or(|to| self.program.instructions[to] == Instruction::Half) {
                return Err(LinkError::Jump { place: self.place_at(of, first, at) });
            }
        }
        // A damaged object may have a function without instructions at the very beginning.
        let ends = end > first && self.program.instructions[end - 1].leaves();
        let function = || self.object.functions[of].name.clone();
        if ends { Ok(()) } else { Err(LinkError::End { function: function() }) }
    }

    /// No way leads to a read of a register that nothing was written to, as in a kernel. After a
    /// call nothing stands in R1 to R5; how many of them the next one takes is not known here, so
    /// that it is given 0 for those that nothing was written to.
    fn check_registers(&mut self, of: usize, first: usize, end: usize) -> Result<(), LinkError> {
        let mut unwritten = BTreeMap::new();
        let joined = each_way(first..end, Written::AT_ENTRY, Written::join, |at, state| {
            self.check_reads((of, first), at, state, &mut unwritten)?;
            let instruction = &self.program.instructions[at];
            let next = (!instruction.leaves()).then_some(at + instruction.slots());
            Ok((next, instruction.target(at)))
        });
        if let Err(refused) = joined {
            // What was written may depend on how a constant came about: each way by itself.
            unwritten.clear();
            let at_entry = (Written::AT_ENTRY, Constants::default());
            let are_all = each_way_apart(first, at_entry, |at, (written, constants)| {
                self.check_reads((of, first), at, written, &mut unwritten)?;
                Ok(constants.step(at, &self.program.instructions[at], &self.addresses.constants))
            })?;
            if !are_all {
                return Err(refused);
            }
        }
        self.program.unwritten.extend(unwritten);
        Ok(())
    }

    /// Refuses an instruction that reads what nothing was written to.
    fn check_reads(
        &self,
        (of, first): (usize, usize),
        at: usize,
        written: &mut Written,
        unwritten: &mut BTreeMap<usize, u8>,
    ) -> Result<(), LinkError> {
        let instruction = &self.program.instructions[at];
        if let Some(register) = instruction.reads().find(|&one| !written.has(one)) {
            let place = self.place_at(of, first, at);
            return Err(LinkError::Unwritten { place, register });
        }
        if matches!(instruction, Instruction::Call(_)) {
            *unwritten.entry(at).or_default() |= written.unwritten_arguments();
        }
        written.after(instruction);
        Ok(())
    }

    /// Goes every way that constants leave open, and refuses what is missing there.
    fn follow(&self, of: usize, first: usize, end: usize) -> Result<(), LinkError> {
        if self.missing.range(first..end).next().is_none() {
            return Ok(());
        }
        each_way(first..end, Constants::default(), Constants::join, |at, state| {
            match self.missing.get(&at) {
                Some(error) => Err(error.again(self.place_at(of, first, at))),
                None => {
                    let instruction = &self.program.instructions[at];
                    Ok(state.step(at, instruction, &self.addresses.constants))
                }
            }
        })
    }
}

impl LinkError {
    /// The same, at this place.
    fn again(&self, place: Box<Place>) -> LinkError {
        match self {
            LinkError::Field { field, instead, .. } => {
                LinkError::Field { place, field: field.clone(), instead: instead.clone() }
            }
            LinkError::Helper { number, .. } => LinkError::Helper { place, number: *number },
            LinkError::Missing { name, .. } => LinkError::Missing { place, name: name.clone() },
            _ => LinkError::Relocation { place },
        }
    }
}

/// What is listed for a slot, of a list of which earlier slots may have been asked for.
fn listed_at<'a, T>(
    listed: &mut Peekable<btree_map::Range<'a, u32, T>>,
    slot: u32,
) -> Option<&'a T> {
    while listed.next_if(|(at, _)| **at < slot).is_some() {}
    listed.next_if(|(at, _)| **at == slot).map(|(_, found)| found)
}

fn wide(to: Register, value: u64) -> Instruction {
    Instruction::LoadWide { to, kind: 0, low: value as i32, high: (value >> 32) as i32 }
}

/// The instruction with the answer to its relocation; `None` if it has no room for it.
fn patched(
    decoded: Instruction,
    relocation: &FieldRelocation,
    value: u64,
    widths: Option<Widths>,
) -> Option<Instruction> {
    let is_offset = relocation.question == Question::FieldOffset;
    match decoded {
        Instruction::Arithmetic { operation, width, to, by: Operand::Number(_) } => {
            let number = i32::try_from(value as i64).ok().or(i32::try_from(value).ok())?;
            Some(Instruction::Arithmetic { operation, width, to, by: Operand::Number(number) })
        }
        Instruction::LoadWide { to, .. } => Some(wide(to, value)),
        Instruction::Load { size, signed, to, base, .. } if is_offset => {
            let size = resized(size, widths)?;
            Some(Instruction::Load { size, signed, to, base, offset: i16::try_from(value).ok()? })
        }
        Instruction::Store { size, base, value: stored, .. } if is_offset => {
            let size = resized(size, widths)?;
            let offset = i16::try_from(value).ok()?;
            Some(Instruction::Store { size, base, offset, value: stored })
        }
        _ => None,
    }
}

/// The width of an access to a field that has another in the world.
fn resized(size: Size, widths: Option<Widths>) -> Option<Size> {
    match widths {
        Some(widths) if widths.object == size.bytes() => {
            let sizes = [Size::Byte, Size::Half, Size::Word, Size::Double];
            let found = sizes.into_iter().find(|size| size.bytes() == widths.world);
            found.filter(|_| widths.unsigned)
        }
        // Which part of a field it is that has another width, nobody knows.
        Some(_) => None,
        None => Some(size),
    }
}
