//! Random numbers that are the same on every machine.
//!
//! Whole-number arithmetic and the `libm` crate only: the standard library's `ln` and `cos` are
//! those of the platform, and runs must give the same bytes everywhere.

use crate::model::workload::{Amount, QUANTILE_LEVELS_PERMILLE, Quantiles};

/// A stream of random numbers: xoshiro256++ (Blackman and Vigna, 2021), seeded by SplitMix64
/// (Steele, Lea and Flood, 2014).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random {
    state: [u64; 4],
}

/// SplitMix64's increment: 2^64 divided by the golden ratio, made odd.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

impl Default for Random {
    /// The first stream of seed 0: a state of zeros would draw nothing but zeros.
    fn default() -> Random {
        Random::new(0, 0)
    }
}

impl Random {
    /// The stream number `stream` of `seed`. Streams of one seed are independent, so that a draw
    /// more in one task does not change what another task draws.
    pub fn new(seed: u64, stream: u64) -> Random {
        // Two passes of the mixer keep (seed, stream) and (stream, seed) apart.
        let mut counter = seed;
        let mixed_seed = split_mix(&mut counter);
        counter = mixed_seed ^ stream.wrapping_mul(GOLDEN);
        Random { state: std::array::from_fn(|_| split_mix(&mut counter)) }
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number below `n`, each with the same probability (Lemire, 2019).
    ///
    /// # Panics
    /// If `n` is 0: there is no such number.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "no number is below 0");
        let rejected_below = n.wrapping_neg() % n;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            if product as u64 >= rejected_below {
                return (product >> 64) as u64;
            }
        }
    }

    /// A number in (0, 1], so that its logarithm is finite.
    fn unit(&mut self) -> f64 {
        const STEPS: f64 = (1_u64 << 53) as f64;
        ((self.next_u64() >> 11) + 1) as f64 / STEPS
    }

    /// A standard normal number (Box and Muller, 1958). Takes two draws.
    fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(self.unit()));
        radius * libm::cos(2.0 * std::f64::consts::PI * self.unit())
    }
}

/// Which stream of random numbers a task draws from.
///
/// It follows from whose child the task is, and which of its parent's, and not from when it is
/// forked or how many others were by then. So a seed gives each task the same numbers in the same
/// order under every policy. How many of them it draws may depend on the policy: on who takes a
/// message or a token that several wait for, on how often a task asks for its children, on when the
/// run is stopped. Where it does not, the work is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    stream: u64,
    nr_children: u64,
}

impl Lineage {
    /// Of the initial task with this number.
    pub fn initial(number: u32) -> Lineage {
        Lineage::of_stream(number.into())
    }

    /// Of a task that draws from this stream and has forked nobody.
    pub fn of_stream(stream: u64) -> Lineage {
        Lineage { stream, nr_children: 0 }
    }

    /// The number of the stream, for [`Random::new`].
    pub fn stream(self) -> u64 {
        self.stream
    }

    /// Of the task's next child, in a workload of so many initial tasks.
    ///
    /// Initial tasks and their children have small numbers, each its own; the generations after
    /// them have 63 mixed bits, of which two are equal with a probability of 2^-63.
    pub fn next_child(&mut self, nr_initial: usize) -> Lineage {
        let (nr_initial, nth) = (nr_initial as u64, self.nr_children);
        self.nr_children += 1;
        Lineage::of_stream(if self.stream < nr_initial {
            nr_initial * (1 + nth) + self.stream
        } else {
            let mut counter = self.stream ^ (1 + nth).wrapping_mul(GOLDEN);
            split_mix(&mut counter) | 1 << 63
        })
    }
}

fn split_mix(counter: &mut u64) -> u64 {
    *counter = counter.wrapping_add(GOLDEN);
    let mut mixed = *counter;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Nearest whole number, halves up; what is negative becomes 0, what does not fit the largest.
fn whole(value: f64) -> u64 {
    libm::floor(value + 0.5) as u64
}

impl Amount {
    /// One value of this distribution. `Fixed` takes no draw, so fixed programs do not depend on
    /// the seed.
    ///
    /// # Panics
    /// If `low` is above `high`.
    #[inline]
    pub fn draw(&self, rng: &mut Random) -> u64 {
        if let Amount::Fixed(value) = *self { value } else { self.draw_varying(rng) }
    }

    fn draw_varying(&self, rng: &mut Random) -> u64 {
        match *self {
            Amount::Fixed(value) => value,
            Amount::Uniform { low, high } => {
                assert!(low <= high, "uniform from {low} to {high} is empty");
                match (high - low).checked_add(1) {
                    Some(values) => low + rng.below(values),
                    None => rng.next_u64(),
                }
            }
            Amount::Exponential { mean } => whole(-libm::log(rng.unit()) * mean as f64),
            Amount::Normal { mean, sd } => whole(mean as f64 + sd as f64 * rng.normal()),
            Amount::LogNormal { median, sigma_permille } => {
                let sigma = sigma_permille as f64 / 1000.0;
                whole(median as f64 * libm::exp(sigma * rng.normal()))
            }
            Amount::Recorded(quantiles) => quantiles.draw(rng),
        }
    }

    /// Whether every draw is 0.
    pub(crate) fn is_always_zero(&self) -> bool {
        matches!(
            self,
            Amount::Fixed(0)
                | Amount::Uniform { high: 0, .. }
                | Amount::Exponential { mean: 0 }
                | Amount::Normal { mean: 0, sd: 0 }
                | Amount::LogNormal { median: 0, .. }
                | Amount::Recorded(Quantiles { at: [.., 0], .. } | Quantiles { permille: 0, .. })
        )
    }
}

impl Quantiles {
    /// One value: a level is drawn, and the value at it lies on the line between two quantiles.
    fn draw(&self, rng: &mut Random) -> u64 {
        /// Places between two thousandths.
        const PLACES: u64 = 1 << 32;
        let level = rng.below(1000 * PLACES);
        let next = QUANTILE_LEVELS_PERMILLE
            .iter()
            .position(|end| level < end * PLACES)
            .expect("the last level is above every number drawn");
        let [from, to] = [next - 1, next].map(|i| QUANTILE_LEVELS_PERMILLE[i] * PLACES);
        let [low, high] = [next - 1, next].map(|i| u128::from(self.at[i]));
        let into = u128::from(level - from);
        // A whole number of at most 32 + 8 + 32 bits, scaled by at most 10 + 30 as files say it.
        let above = (high - low) * into;
        let scale = u128::from(self.unit) * u128::from(self.permille);
        let value = (low * scale + above * scale / u128::from(to - from)) / 1000;
        u64::try_from(value).unwrap_or(u64::MAX)
    }

    /// The mean of what is drawn, but for rounding: that of the straight lines.
    pub fn mean(&self) -> f64 {
        let part = |i: usize| {
            let width = QUANTILE_LEVELS_PERMILLE[i + 1] - QUANTILE_LEVELS_PERMILLE[i];
            width as f64 * (f64::from(self.at[i]) + f64::from(self.at[i + 1])) / 2.0
        };
        let sum: f64 = (0..self.at.len() - 1).map(part).sum();
        sum / 1000.0 * f64::from(self.unit) * f64::from(self.permille) / 1000.0
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the generator is the published one, the distributions have their moments, and
    //! nothing depends on the machine. Method: known answers, closed forms, fixed values.
    use super::*;

    #[test]
    fn split_mix_gives_the_published_sequence_of_1234567() {
        let mut counter = 1_234_567;
        let drawn: Vec<u64> = (0..5).map(|_| split_mix(&mut counter)).collect();
        assert_eq!(
            drawn,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821
            ]
        );
    }

    #[test]
    fn xoshiro_gives_the_published_sequence_of_1_2_3_4() {
        let mut rng = Random { state: [1, 2, 3, 4] };
        let drawn: Vec<u64> = (0..5).map(|_| rng.next_u64()).collect();
        assert_eq!(
            drawn,
            [
                41_943_041,
                58_720_359,
                3_588_806_011_781_223,
                3_591_011_842_654_386,
                9_228_616_714_210_784_205
            ]
        );
    }

    #[test]
    fn streams_and_seeds_differ_and_do_not_commute() {
        let first = |seed, stream| Random::new(seed, stream).next_u64();
        assert_eq!(first(1, 2), first(1, 2));
        assert_ne!(first(1, 2), first(2, 1));
        assert_ne!(first(1, 2), first(1, 3));
        assert_ne!(first(0, 0), first(0, 1));
    }

    #[test]
    fn each_task_of_a_tree_has_a_stream_of_its_own() {
        let (nr_initial, mut generation, mut streams) = (3, Vec::new(), Vec::new());
        generation.extend((0..nr_initial).map(Lineage::initial));
        for _ in 0..4 {
            streams.extend(generation.iter().map(|task| task.stream()));
            let children = |task: &mut Lineage| {
                (0..10).map(|_| task.next_child(nr_initial as usize)).collect::<Vec<_>>()
            };
            generation = generation.iter_mut().flat_map(children).collect();
        }
        assert_eq!(streams.len(), 3 + 30 + 300 + 3_000);
        assert_eq!(streams[..7], [0, 1, 2, 3, 6, 9, 12]);
        streams.sort_unstable();
        streams.dedup();
        assert_eq!(streams.len(), 3 + 30 + 300 + 3_000);
    }

    #[test]
    fn below_stays_below_and_reaches_every_value_equally() {
        let mut rng = Random::new(7, 0);
        let mut seen = [0_u32; 6];
        for _ in 0..60_000 {
            seen[rng.below(6) as usize] += 1;
        }
        // Chi squared with 5 degrees of freedom exceeds 20.5 once in 1000 seeds.
        let chi: f64 = seen.iter().map(|&n| (f64::from(n) - 1e4).powi(2) / 1e4).sum();
        assert!(chi < 20.5, "{seen:?}");
        assert_eq!(rng.below(1), 0);
        assert!(rng.below(u64::MAX) < u64::MAX);
    }

    #[test]
    fn below_is_even_where_a_bare_multiplication_would_not_be() {
        // Of 2^64 values, three quarters as many results: without rejection every third result
        // would come up twice as often as the others, half of the time in all.
        let mut rng = Random::new(11, 0);
        let thirds = (0..30_000).filter(|_| rng.below(3 << 62).is_multiple_of(3)).count();
        assert!((9_600..10_400).contains(&thirds), "{thirds} of 30000");
    }

    fn moments(amount: Amount) -> (f64, f64) {
        let mut rng = Random::new(20_070_413, 5);
        let drawn: Vec<f64> = (0..200_000).map(|_| amount.draw(&mut rng) as f64).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let squares: f64 = drawn.iter().map(|x| (x - mean).powi(2)).sum();
        (mean, (squares / drawn.len() as f64).sqrt())
    }

    fn assert_near(got: f64, want: f64, what: &str) {
        assert!((got / want - 1.0).abs() < 0.02, "{what}: got {got}, want {want}");
    }

    #[test]
    fn distributions_have_the_moments_of_their_closed_forms() {
        let (mean, sd) = moments(Amount::Uniform { low: 1_000_000, high: 3_000_000 });
        assert_near(mean, 2e6, "uniform mean");
        assert_near(sd, 2e6 / 12_f64.sqrt(), "uniform sd");
        let (mean, sd) = moments(Amount::Exponential { mean: 2_000_000 });
        assert_near(mean, 2e6, "exponential mean");
        assert_near(sd, 2e6, "exponential sd");
        let (mean, sd) = moments(Amount::Normal { mean: 1_000_000, sd: 100_000 });
        assert_near(mean, 1e6, "normal mean");
        assert_near(sd, 1e5, "normal sd");
        let (mean, _) = moments(Amount::LogNormal { median: 1_000_000, sigma_permille: 500 });
        assert_near(mean, 1e6 * (0.125_f64).exp(), "log-normal mean");
    }

    /// What 20 compilations took, say, in microseconds.
    const RECORDED: Quantiles =
        Quantiles { at: [10, 20, 40, 50, 80, 100, 200, 400, 500], unit: 1000, permille: 1000 };

    #[test]
    fn a_recording_is_drawn_with_its_quantiles_and_its_mean() {
        let mut rng = Random::new(5, 1);
        let amount = Amount::Recorded(RECORDED);
        let mut drawn: Vec<u64> = (0..200_000).map(|_| amount.draw(&mut rng)).collect();
        drawn.sort_unstable();
        for (level, at) in QUANTILE_LEVELS_PERMILLE.into_iter().zip(RECORDED.at) {
            let place = (drawn.len() - 1) * level as usize / 1000;
            assert_near(drawn[place] as f64, f64::from(at) * 1e3, "quantile");
        }
        // 0.1 x 15 + 0.15 x 30 + 0.25 x 45 + 0.25 x 65 + 0.15 x 90 + 0.05 x 150 + 0.04 x 300
        // + 0.01 x 450, in microseconds.
        assert_near(RECORDED.mean(), 71e3, "mean by hand");
        let (mean, _) = moments(amount);
        assert_near(mean, RECORDED.mean(), "mean");
        let (half, _) = moments(Amount::Recorded(Quantiles { permille: 500, ..RECORDED }));
        assert_near(half, RECORDED.mean() / 2.0, "mean of half");
    }

    #[test]
    fn the_largest_recording_fits() {
        let at = [u32::MAX; 9];
        let largest = Amount::Recorded(Quantiles { at, unit: u32::MAX, permille: 1000 });
        let value = largest.draw(&mut Random::new(1, 1));
        assert_eq!(value, u64::from(u32::MAX) * u64::from(u32::MAX));
        // The largest scale that a file may say, on the widest step.
        let at = [0, 0, 0, 0, u32::MAX, u32::MAX, u32::MAX, u32::MAX, u32::MAX];
        let amount = Amount::Recorded(Quantiles { at, unit: 1000, permille: 1_000_000_000 });
        let mut rng = Random::new(1, 1);
        let most = (0..1000).map(|_| amount.draw(&mut rng)).max();
        assert_eq!(most, Some(u64::from(u32::MAX) * 1_000_000_000));
    }

    #[test]
    fn normal_is_cut_at_zero_and_fixed_takes_no_draw() {
        let mut rng = Random::new(3, 0);
        let negative =
            (0..1000).filter(|_| Amount::Normal { mean: 0, sd: 1000 }.draw(&mut rng) == 0).count();
        assert!((400..600).contains(&negative), "{negative} of 1000 cut");
        let before = rng.clone();
        assert_eq!(Amount::Fixed(9).draw(&mut rng), 9);
        assert_eq!(rng, before);
    }

    #[test]
    fn the_whole_range_can_be_drawn_from() {
        let mut rng = Random::new(3, 1);
        Amount::Uniform { low: 0, high: u64::MAX }.draw(&mut rng);
        assert_eq!(Amount::Uniform { low: 5, high: 5 }.draw(&mut rng), 5);
    }

    #[test]
    fn draws_are_these_on_every_machine() {
        let mut rng = Random::new(91_823, 4);
        let drawn = [
            Amount::Exponential { mean: 2_000_000 }.draw(&mut rng),
            Amount::Normal { mean: 1_000_000, sd: 300_000 }.draw(&mut rng),
            Amount::LogNormal { median: 50_000, sigma_permille: 1500 }.draw(&mut rng),
            Amount::Uniform { low: 10, high: 1_000_000 }.draw(&mut rng),
        ];
        assert_eq!(drawn, [671_928, 671_393, 25_306, 977_127]);
    }
}
