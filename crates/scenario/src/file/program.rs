//! Reads the programs of tasks: lists of steps, each a word or a small table.
//!
//! Every operation remembers the key it came from, so that what is found wrong later is still
//! reported by its place in the file.

use crate::file::cgroups::find_place;
use crate::file::changes::read_cpu_set;
use crate::made::builder::ProgramBuilder;
use crate::model::check::PROGRAM_OPS_MAX;
use crate::model::duration::DURATION_NS_MAX;
use crate::model::error::{ScenarioError, choices, nearest};
use crate::model::workload::{
    Amount, Cgroup, CpuSet, LOOP_DEPTH_MAX, NO_DEADLINE_NS, Op, Program, QUANTILE_LEVELS_PERMILLE,
    Quantiles, Repeat,
};
use crate::reading::{Node, TableNode};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// The largest number of rounds of a loop.
const ROUNDS_MAX: u64 = 1_000_000_000_000;
/// The largest sigma of a log-normal distribution: a factor of e^10 either way.
const SIGMA_PERMILLE_MAX: u64 = 10_000;

/// The most that a scale may say: a million times. What is drawn is then counted without loss. The
/// largest quantile, 2^32 us, becomes less than 2^63 ns. What is multiplied to draw one fits in 128
/// bits: a quantile has 32, a place between two levels 40, a scale with its unit 40.
pub(crate) const SCALE_PERMILLE_MAX: u32 = 1_000_000_000;

const VERBS: [&str; 12] = [
    "run", "sleep", "send", "recv", "wake", "wake_all", "wait", "fork", "nice", "affinity", "move",
    "release",
];
const STEP_KEYS: [&str; 16] = [
    "run", "sleep", "send", "recv", "wake", "wake_all", "wait", "fork", "nice", "affinity", "move",
    "release", "repeat", "do", "bytes", "deadline",
];
const WORDS: [&str; 6] = ["yield", "join", "mark", "tare", "done", "exit"];
const AMOUNT_KEYS: [&str; 5] = ["uniform", "exponential", "normal", "log_normal", "quantiles"];

/// An unknown key of a step may also be a word that was written as a table.
fn with_words(error: ScenarioError) -> ScenarioError {
    let ScenarioError::UnknownKey { file, key, hint } = error else { return error };
    let name = key.rsplit('.').next().unwrap_or_default();
    let hint = match nearest(name, &[&STEP_KEYS[..], &WORDS].concat()) {
        Some(word) if WORDS.contains(&word) => {
            let keys = STEP_KEYS.join(", ");
            format!("did you mean \"{word}\", without braces? valid here: {keys}")
        }
        _ => hint,
    };
    let words = WORDS.map(|word| format!("\"{word}\"")).join(", ");
    ScenarioError::UnknownKey { file, key, hint: format!("{hint}; without braces: {words}") }
}

/// Channels or gates of one name: the index of the first, and how many there are.
pub(crate) type Ranges = BTreeMap<String, (u32, u32)>;

/// What programs may name.
#[derive(Default)]
pub(crate) struct Names {
    pub channels: Ranges,
    pub gates: Ranges,
    /// What computing takes, in thousandths of what programs say, if not just that.
    pub run_permille: Option<u32>,
    /// Groups of tasks.
    pub cgroups: Vec<Cgroup>,
    /// Index of each named template.
    pub templates: BTreeMap<String, u32>,
    /// CPUs that programs read so far bind their tasks to.
    pub cpu_sets: RefCell<Vec<CpuSet>>,
}

/// A program with the place in the file of each of its operations.
pub(crate) struct PlacedProgram {
    pub program: Program,
    pub places: Vec<String>,
    /// Whether it depends on which of several tasks runs it (`name[#]`).
    pub depends_on_instance: bool,
}

/// Reads the program at `node` for the task number `instance` of its kind.
pub(crate) fn read_program(
    node: &Node,
    names: &Names,
    instance: u32,
) -> Result<PlacedProgram, ScenarioError> {
    let mut reader = ProgramReader {
        names,
        instance,
        builder: ProgramBuilder::new(),
        places: Vec::new(),
        depends_on_instance: false,
    };
    reader.steps(node)?;
    Ok(PlacedProgram {
        program: reader.builder.build(),
        places: reader.places,
        depends_on_instance: reader.depends_on_instance,
    })
}

struct ProgramReader<'n> {
    names: &'n Names,
    instance: u32,
    builder: ProgramBuilder,
    places: Vec<String>,
    depends_on_instance: bool,
}

impl ProgramReader<'_> {
    fn steps(&mut self, node: &Node) -> Result<(), ScenarioError> {
        let steps = node.elements()?;
        if steps.is_empty() {
            return Err(node.bad("no steps", "write at least one step, such as { run = \"1ms\" }"));
        }
        for step in steps {
            if self.builder.len() >= PROGRAM_OPS_MAX {
                let hint = format!("stay within {PROGRAM_OPS_MAX} steps: use repeat");
                return Err(step.bad("the program is too long", hint));
            }
            self.step(&step)?;
        }
        Ok(())
    }

    fn step(&mut self, node: &Node) -> Result<(), ScenarioError> {
        if let Some(word) = node.value().as_str() {
            let op = match word {
                "yield" => Op::Yield,
                "join" => Op::Join,
                "mark" => Op::Mark,
                "tare" => Op::Tare,
                "done" => Op::Done,
                "exit" => Op::Exit,
                _ => return Err(node.bad("no such step", choices("words", word, &WORDS))),
            };
            self.push(op, &node.path);
            return Ok(());
        }
        if !node.value().is_table() {
            let hint = format!(
                "write a word ({}) or a table such as {{ run = \"1ms\" }}",
                WORDS.join(", ")
            );
            return Err(node.bad("not a step", hint));
        }
        let table = node.table(&STEP_KEYS).map_err(with_words)?;
        let verb = self.verb(node, &table)?;
        let value = table.need(verb, "")?;
        if verb == "repeat" {
            return self.repeat(&table, &value);
        }
        let op = self.op(verb, &value, &table)?;
        self.push(op, &value.path);
        Ok(())
    }

    fn push(&mut self, op: Op, place: &str) {
        self.builder.push(op);
        self.places.push(place.to_string());
    }

    /// The one key that says what the step does.
    fn verb(&self, node: &Node, table: &TableNode) -> Result<&'static str, ScenarioError> {
        let found: Vec<&'static str> =
            VERBS.iter().copied().chain(["repeat"]).filter(|verb| table.has(verb)).collect();
        let [verb] = found[..] else {
            let problem = if found.is_empty() {
                "the step does nothing".to_string()
            } else {
                format!("one step does {}", found.join(" and "))
            };
            let hint = format!("give exactly one of {}, repeat", VERBS.join(", "));
            return Err(node.bad(problem, hint));
        };
        let owned =
            [("bytes", &["send", "recv"][..]), ("do", &["repeat"]), ("deadline", &["release"])];
        for (key, owners) in owned {
            if table.has(key) && !owners.contains(&verb) {
                let hint = format!("`{key}` belongs to {}", owners.join(" and "));
                return Err(node.bad(format!("`{verb}` has no `{key}`"), hint));
            }
        }
        Ok(verb)
    }

    fn op(&mut self, verb: &str, value: &Node, table: &TableNode) -> Result<Op, ScenarioError> {
        Ok(match verb {
            "run" => {
                let run_permille = self.names.run_permille.unwrap_or(1000);
                Op::Run(amount(value, Numbers { run_permille, ..DURATIONS })?)
            }
            "sleep" => Op::Sleep(duration(value)?),
            "send" => Op::Send { channel: self.channel(value)?, bytes: bytes(table)? },
            "recv" => Op::Recv { channel: self.channel(value)?, bytes: bytes(table)? },
            "wake" => Op::Wake { gate: self.gate(value)? },
            "wake_all" => Op::WakeAll { gate: self.gate(value)? },
            "wait" => Op::Wait { gate: self.gate(value)? },
            "nice" => Op::Nice(value.integer(-20..=19)? as i8),
            "affinity" => Op::Affinity { set: self.cpu_set(value)? },
            "move" => Op::Move { to: find_place(value, &self.names.cgroups)? },
            "release" => Op::Release { every: duration(value)?, deadline_ns: deadline_ns(table)? },
            _ => Op::Fork { template: self.template(value)? },
        })
    }

    fn repeat(&mut self, table: &TableNode, value: &Node) -> Result<(), ScenarioError> {
        let repeat = match value.value().as_str() {
            Some("forever") => Repeat::Forever,
            Some("while-children") => Repeat::WhileChildren,
            Some(word) => {
                let known = ["forever", "while-children"];
                return Err(value.bad("no such repeat", choices("a number, or", word, &known)));
            }
            None => Repeat::Times(amount(value, COUNTS)?),
        };
        if self.builder.depth() == LOOP_DEPTH_MAX {
            let hint = format!("nest at most {LOOP_DEPTH_MAX} repeats; join inner ones into one");
            return Err(value.bad("repeats are nested too deep", hint));
        }
        self.builder.begin(repeat);
        self.places.push(value.path.clone());
        self.steps(&table.need("do", "list the steps to repeat: do = [ ... ]")?)?;
        self.builder.end();
        self.places.push(value.path.clone());
        Ok(())
    }

    fn channel(&mut self, node: &Node) -> Result<u32, ScenarioError> {
        let names = self.names;
        self.indexed(node, &names.channels, "channel")
    }

    fn gate(&mut self, node: &Node) -> Result<u32, ScenarioError> {
        let names = self.names;
        self.indexed(node, &names.gates, "gate")
    }

    /// `name`, `name[3]`, or `name[#]` for the task's own number.
    fn indexed(&mut self, node: &Node, known: &Ranges, what: &str) -> Result<u32, ScenarioError> {
        let text = node.text()?;
        let (name, index) = match text.strip_suffix(']').and_then(|text| text.split_once('[')) {
            Some((name, index)) => (name, Some(index)),
            None => (text, None),
        };
        let Some(&(first, count)) = known.get(name) else {
            let names: Vec<&str> = known.keys().map(String::as_str).collect();
            let hint = choices(&format!("declared {what}s"), name, &names);
            return Err(node.bad(format!("unknown {what} `{name}`"), hint));
        };
        let index = match index {
            Some("#") => {
                self.depends_on_instance = true;
                self.instance
            }
            Some(digits) => digits.parse().map_err(|_| {
                node.bad(
                    "no such index",
                    format!("write {name}[0], or {name}[#] for the task's own"),
                )
            })?,
            None if count > 1 => {
                let hint = format!("write {name}[0] to {name}[{}], or {name}[#]", count - 1);
                return Err(node.bad(format!("there are {count} of this {what}"), hint));
            }
            None => 0,
        };
        if index >= count {
            let hint = format!("give [{what}s.{name}] a larger count, or use a smaller index");
            return Err(node.bad(format!("index {index} of {count} {what}s"), hint));
        }
        Ok(first + index)
    }

    /// Number of a set of CPUs; a new one if it is the first of its kind.
    fn cpu_set(&self, node: &Node) -> Result<u32, ScenarioError> {
        let cpus = read_cpu_set(node)?;
        let mut sets = self.names.cpu_sets.borrow_mut();
        let known = sets.iter().position(|set| *set == cpus);
        Ok(known.unwrap_or_else(|| {
            sets.push(cpus);
            sets.len() - 1
        }) as u32)
    }

    fn template(&self, node: &Node) -> Result<u32, ScenarioError> {
        let name = node.text()?;
        let known = &self.names.templates;
        known.get(name).copied().ok_or_else(|| {
            let names: Vec<&str> = known.keys().map(String::as_str).collect();
            node.bad(
                format!("unknown template `{name}`"),
                choices("declared templates", name, &names),
            )
        })
    }
}

fn bytes(step: &TableNode) -> Result<u32, ScenarioError> {
    step.need("bytes", "say how large the message is, such as bytes = 100")?
        .unsigned_32(1, u32::MAX)
}

fn deadline_ns(step: &TableNode) -> Result<u64, ScenarioError> {
    step.get("deadline")?.map_or(Ok(NO_DEADLINE_NS), |deadline| deadline.duration_ns())
}

/// How the numbers of a distribution are read.
#[derive(Clone, Copy)]
struct Numbers {
    /// Reads one as it is written.
    written: fn(&Node) -> Result<u64, ScenarioError>,
    /// A recording keeps its numbers in units of this.
    unit: u32,
    /// What the workload's `run_permille` makes of them.
    run_permille: u32,
    /// The most that one may be once it is scaled.
    most: u64,
}

const DURATIONS: Numbers = Numbers {
    written: |node| node.duration_ns(),
    unit: 1000,
    run_permille: 1000,
    most: DURATION_NS_MAX,
};
const COUNTS: Numbers = Numbers {
    written: |node| node.unsigned(0, ROUNDS_MAX),
    unit: 1,
    run_permille: 1000,
    // A million times 2^32 is far below.
    most: u64::MAX,
};

impl Numbers {
    /// The number at `node`, scaled. What is left of a nanosecond is cut off.
    fn read(self, node: &Node) -> Result<u64, ScenarioError> {
        let value = (self.written)(node)?;
        self.scaled(node, value, self.run_permille)
    }

    /// `value`, which stands at `node`, times `permille` / 1000.
    fn scaled(self, node: &Node, value: u64, permille: u32) -> Result<u64, ScenarioError> {
        let scaled = u128::from(value) * u128::from(permille) / 1000;
        u64::try_from(scaled).ok().filter(|scaled| *scaled <= self.most).ok_or_else(|| {
            let most_s = self.most / 1_000_000_000;
            let problem = format!("{permille} thousandths of it are longer than {most_s} s");
            node.bad(problem, "lower it, or what scales it: `permille` or `run_permille`")
        })
    }

    /// A recording's scale, which stands at `node`, times that of the workload. It is exact or
    /// refused, as rounding it would change all that is drawn.
    fn scale(self, node: &Node) -> Result<u32, ScenarioError> {
        let own = node.unsigned_32(1, SCALE_PERMILLE_MAX)?;
        let product = u64::from(own) * u64::from(self.run_permille);
        let with = format!("times run_permille, which is {}, it is", self.run_permille);
        if !product.is_multiple_of(1000) {
            let hint = "let the product of both be a multiple of 1000, or scale `at` itself";
            return Err(node.bad(format!("{with} no whole number of thousandths"), hint));
        }
        let exact = u32::try_from(product / 1000).ok().filter(|scale| *scale <= SCALE_PERMILLE_MAX);
        exact.ok_or_else(|| {
            let problem = format!("{with} more than {SCALE_PERMILLE_MAX}");
            node.bad(problem, "lower one of them")
        })
    }
}

fn duration(node: &Node) -> Result<Amount, ScenarioError> {
    amount(node, DURATIONS)
}

/// A fixed value or a distribution.
fn amount(node: &Node, numbers: Numbers) -> Result<Amount, ScenarioError> {
    if !node.value().is_table() {
        return Ok(Amount::Fixed(numbers.read(node)?));
    }
    let table = node.table(&AMOUNT_KEYS)?;
    let entries = table.entries()?;
    let [(kind, value)] = &entries[..] else {
        let hint = format!("give exactly one of {}", AMOUNT_KEYS.join(", "));
        return Err(node.bad("not one distribution", hint));
    };
    Ok(match *kind {
        "uniform" => uniform(value, numbers)?,
        "exponential" => Amount::Exponential { mean: numbers.read(value)? },
        "quantiles" => recorded(value, numbers)?,
        "normal" => {
            let table = value.table(&["mean", "sd"])?;
            let hint = "write normal = { mean = ..., sd = ... }";
            let mean = numbers.read(&table.need("mean", hint)?)?;
            Amount::Normal { mean, sd: numbers.read(&table.need("sd", hint)?)? }
        }
        _ => {
            let table = value.table(&["median", "sigma_permille"])?;
            let hint = "write log_normal = { median = ..., sigma_permille = ... }";
            let median = numbers.read(&table.need("median", hint)?)?;
            let sigma = table.need("sigma_permille", hint)?;
            Amount::LogNormal { median, sigma_permille: sigma.unsigned(0, SIGMA_PERMILLE_MAX)? }
        }
    })
}

/// `quantiles = { at = [ ... ], permille = 500 }`, or only the list.
fn recorded(node: &Node, numbers: Numbers) -> Result<Amount, ScenarioError> {
    let hint = "write quantiles = [least, p10, p25, p50, p75, p90, p95, p99, most]";
    if !node.value().is_table() {
        return quantiles(node, numbers, numbers.run_permille);
    }
    let table = node.table(&["at", "permille"])?;
    let permille = table.get("permille")?.map(|scale| numbers.scale(&scale)).transpose()?;
    quantiles(&table.need("at", hint)?, numbers, permille.unwrap_or(numbers.run_permille))
}

/// The recording with these quantiles, of which `permille` thousandths are drawn.
fn quantiles(node: &Node, numbers: Numbers, permille: u32) -> Result<Amount, ScenarioError> {
    let unit = numbers.unit;
    let elements = node.elements()?;
    let mut at = [0; QUANTILE_LEVELS_PERMILLE.len()];
    let mut least = 0;
    if elements.len() != at.len() {
        let problem = format!("{} quantiles, not {}", elements.len(), at.len());
        return Err(node.bad(problem, "write [least, p10, p25, p50, p75, p90, p95, p99, most]"));
    }
    for (quantile, element) in at.iter_mut().zip(&elements) {
        let value = (numbers.written)(element)?;
        *quantile = u32::try_from(value / u64::from(unit)).unwrap_or(u32::MAX);
        if u64::from(*quantile) * u64::from(unit) != value {
            let hint = match unit {
                1 => "write at most 4294967295",
                _ => "write whole microseconds, at most 71 minutes",
            };
            return Err(element.bad("too fine or too large for a quantile", hint));
        }
        if *quantile < least {
            return Err(element.bad("less than the quantile before it", "put the least first"));
        }
        least = *quantile;
        numbers.scaled(element, value, permille)?;
    }
    Ok(Amount::Recorded(Quantiles { at, unit, permille }))
}

fn uniform(node: &Node, numbers: Numbers) -> Result<Amount, ScenarioError> {
    let ends = node.elements()?;
    let [low, high] = &ends[..] else {
        return Err(node.bad("not two ends", "write uniform = [least, most]"));
    };
    if (numbers.written)(low)? > (numbers.written)(high)? {
        return Err(node.bad("the least is more than the most", "write uniform = [least, most]"));
    }
    Ok(Amount::Uniform { low: numbers.read(low)?, high: numbers.read(high)? })
}
