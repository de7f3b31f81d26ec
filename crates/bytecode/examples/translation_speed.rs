//! How long a translated program takes, against the same C as `cc -O2` makes it.
//!
//! Both run in turns; of each the fastest turn counts, since a disturbance only ever adds time.
//! Prints a line a function: nanoseconds a call natively, translated and interpreted, and ratios.

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use bytecode::{Addresses, FaultKind, Host, Machine, Memory, Object, Program, Run, Stop, World};

const TURNS: usize = 15;
/// A turn's length; the number of calls follows from it.
const TURN_NS: f64 = 20e6;
const FUNCTIONS: [&str; 5] = ["f_scan", "f_tree", "f_bits", "f_account", "f_short"];

struct Nobody;

impl Host for Nobody {
    fn call(_: &mut Run<'_, Self>, _: usize, _: [u64; 5]) -> Result<u64, Stop> {
        Err(FaultKind::Missing.into())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/speed.c");
    let folder = std::env::temp_dir().join(format!("translation-speed-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let measured = measure(&source, &folder);
    std::fs::remove_dir_all(&folder)?;
    measured
}

fn measure(source: &Path, folder: &Path) -> Result<(), Box<dyn Error>> {
    let (native, built) = (folder.join("speed"), folder.join("speed.o"));
    let same = ["-O2", "-fwrapv", "-fno-strict-aliasing", "-o"];
    run(Command::new("cc").args(same).args([&native, source]))?;
    let bpf = ["-g", "-target", "bpf", "-mcpu=v3", "-c"];
    run(Command::new("clang-19").args(bpf).args(same).args([&built, source]))?;
    let object = Object::read(&std::fs::read(built)?)?;
    let bytes = object.data.iter().map(|data| data.len + 16).sum();
    let mut memory = Memory::new(0, bytes).expect("addresses");
    let added = object.data.iter().map(|data| memory.add_writable(data.len, 16));
    let data = added.collect::<Result<_, _>>()?;
    let addresses = Addresses { data, ..Addresses::default() };
    let roots: Vec<_> = (0..object.functions.len()).collect();
    let program = Program::link(&object, &roots, &World::default(), &addresses)?;
    let interpreted = Machine::new(program.clone(), Box::new(memory.clone()), u64::MAX >> 1);
    let mut translated = Machine::new(program.clone(), Box::new(memory), u64::MAX >> 1);
    let began = Instant::now();
    if !translated.translate() {
        return Err("no translation here".into());
    }
    let (slots, ms) = (program.instructions().len(), began.elapsed().as_secs_f64() * 1e3);
    println!("translated {slots} instructions in {ms:.2} ms");
    println!("          cc -O2 ns  translated   ratio interpreted   ratio");
    let mut ours = Ours { translated, interpreted };
    let mut product = 1.0;
    for name in FUNCTIONS {
        let function = object.functions.iter().position(|one| one.name == name).ok_or(name)?;
        let number = program.function(function).ok_or(name)?;
        let [ns, translated, interpreted] = ours.fastest(&native, name, number)?;
        let (ratio, slow) = (translated / ns, interpreted / ns);
        product *= ratio;
        println!("{name:9} {ns:9.1} {translated:11.1} {ratio:7.2} {interpreted:11.1} {slow:7.1}");
    }
    let mean = f64::powf(product, 1.0 / FUNCTIONS.len() as f64);
    println!("geometric mean of the ratios: {mean:.2}");
    Ok(())
}

struct Ours {
    translated: Machine,
    interpreted: Machine,
}

impl Ours {
    /// Nanoseconds a call: natively, translated and interpreted.
    fn fastest(
        &mut self,
        native: &Path,
        name: &str,
        number: usize,
    ) -> Result<[f64; 3], Box<dyn Error>> {
        let mut fastest = [f64::INFINITY; 3];
        let mut calls = 1000;
        for turn in 0..TURNS {
            let output = Command::new(native).args([name, &calls.to_string()]).output()?;
            let text = String::from_utf8(output.stdout)?;
            let ns: f64 = text.split(' ').next().ok_or("no time")?.parse()?;
            let all =
                [ns, self.turn(number, calls, true)?, self.turn(number, calls / 50 + 1, false)?];
            // The first turn says how many calls one is to have.
            if turn == 0 {
                calls = (TURN_NS / ns).max(100.0) as u64;
            } else {
                fastest.iter_mut().zip(all).for_each(|(best, one)| *best = best.min(one));
            }
        }
        Ok(fastest)
    }

    fn turn(&mut self, number: usize, calls: u64, is_translated: bool) -> Result<f64, String> {
        let machine = if is_translated { &mut self.translated } else { &mut self.interpreted };
        let began = Instant::now();
        for n in 0..calls {
            let answer = machine.call(&mut Nobody, number, [n, 0, 0, 0, 0]);
            std::hint::black_box(answer.map_err(|fault| fault.told(machine.program()))?);
        }
        Ok(began.elapsed().as_nanos() as f64 / calls as f64)
    }
}

fn run(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let done = command.output()?;
    if done.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&done.stderr).into_owned().into())
}
