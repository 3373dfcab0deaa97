//! Everything random about a link: which packets are lost, doubled, held back or corrupted, and how their delay varies.
//!
//! Pure: the seed is an argument, and the same seed with the same calls gives the same answers. Each question has a series
//! of its own, so that switching on jitter does not change which packets are lost. Probabilities are exact to one in a
//! million. A delay is never below zero, which moves the mean of a variation wider than the delay.

use fastrand::Rng;
use wire::{Conditions, JitterShape, Loss, MILLION};

/// The series of random numbers of one link.
#[derive(Debug, Clone)]
pub struct Chance {
    loss: Rng,
    duplicate: Rng,
    reorder: Rng,
    corrupt: Rng,
    jitter: Rng,
    losses: Option<Losses>,
}

/// Seed of the link between two datacenters: every link has its own, also where a relay has several.
pub fn seed(base: u64, from: &str, to: &str) -> u64 {
    // FNV-1a; no name contains the byte between them.
    let names = from.bytes().chain([0xff]).chain(to.bytes());
    names.fold(0xcbf2_9ce4_8422_2325 ^ base, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

impl Chance {
    /// The series that begin with `seed`.
    pub fn new(seed: u64, conditions: &Conditions) -> Self {
        let mut seeds = Rng::with_seed(seed);
        let mut fork = || Rng::with_seed(seeds.u64(..));
        let mut chance = Self {
            loss: fork(),
            duplicate: fork(),
            reorder: fork(),
            corrupt: fork(),
            jitter: fork(),
            losses: None,
        };
        chance.set(conditions);
        chance
    }

    /// Other conditions from now on. A run of losses does not go on across them.
    pub fn set(&mut self, conditions: &Conditions) {
        self.losses = conditions.loss.map(|loss| Losses::new(loss, &mut self.loss));
    }

    /// Whether the next packet is lost.
    pub fn loses(&mut self) -> bool {
        match &mut self.losses {
            Some(losses) => losses.next(&mut self.loss),
            None => false,
        }
    }

    /// Whether the next packet arrives twice.
    pub fn duplicates(&mut self, conditions: &Conditions) -> bool {
        hits(&mut self.duplicate, conditions.duplicate_ppm)
    }

    /// How long the next packet is held back, if it is.
    pub fn holds_back(&mut self, conditions: &Conditions) -> Option<u64> {
        let reorder = conditions.reorder?;
        hits(&mut self.reorder, reorder.ppm).then_some(reorder.by_ns)
    }

    /// Which of `bits` bits of the next packet is flipped, if one is.
    pub fn corrupts(&mut self, conditions: &Conditions, bits: usize) -> Option<usize> {
        let hit = hits(&mut self.corrupt, conditions.corrupt_ppm);
        (hit && bits > 0).then(|| self.corrupt.usize(..bits))
    }

    /// Delay of the next packet.
    pub fn delay_ns(&mut self, conditions: &Conditions) -> u64 {
        match &conditions.jitter {
            Some(jitter) => varied(&mut self.jitter, conditions.delay_ns, &jitter.shape),
            None => conditions.delay_ns,
        }
    }
}

fn hits(rng: &mut Rng, ppm: u32) -> bool {
    ppm > 0 && rng.u32(..MILLION) < ppm
}

/// Gilbert's model: a state in which all packets pass, one in which none does, and how likely each ends at a packet.
#[derive(Debug, Clone, Copy)]
struct Losses {
    losing: bool,
    begins: f64,
    ends: f64,
}

impl Losses {
    /// The share of lost packets is kept in any case. Where a run of the wanted length would need more packets between
    /// than there are, runs become longer.
    fn new(loss: Loss, rng: &mut Rng) -> Self {
        let share = f64::from(loss.ppm) / f64::from(MILLION);
        let length = f64::from(loss.burst_milli) / 1000.0;
        let (begins, ends) = if length <= 1.0 {
            // Independent: what the last packet met with says nothing.
            (share, 1.0 - share)
        } else if share >= 1.0 {
            (1.0, 0.0)
        } else {
            let begins = share / (1.0 - share) / length;
            if begins <= 1.0 {
                (begins, 1.0 / length)
            } else {
                (1.0, (1.0 - share) / share)
            }
        };
        Self {
            losing: rng.f64() < share,
            begins,
            ends,
        }
    }

    fn next(&mut self, rng: &mut Rng) -> bool {
        let changes = rng.f64() < if self.losing { self.ends } else { self.begins };
        self.losing ^= changes;
        self.losing
    }
}

fn varied(rng: &mut Rng, delay_ns: u64, shape: &JitterShape) -> u64 {
    match *shape {
        JitterShape::Uniform { spread_ns } => {
            let span_ns = spread_ns.saturating_mul(2);
            delay_ns.saturating_add(rng.u64(..=span_ns)).saturating_sub(spread_ns)
        }
        JitterShape::Normal { deviation_ns } => moved(delay_ns, normal(rng), deviation_ns),
        JitterShape::Pareto { deviation_ns } => moved(delay_ns, pareto(rng), deviation_ns),
        JitterShape::Table { ref added_ns } => {
            delay_ns.saturating_add(rng.choice(added_ns).copied().unwrap_or_default())
        }
    }
}

/// A delay moved by so many deviations.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a nanosecond in a hundred days is no matter, and a cast of a float stops at the ends of an integer"
)]
fn moved(delay_ns: u64, deviations: f64, deviation_ns: u64) -> u64 {
    delay_ns.saturating_add_signed((deviations * deviation_ns as f64) as i64)
}

/// Normal with mean 0 and deviation 1, by Box and Muller.
fn normal(rng: &mut Rng) -> f64 {
    // Above zero, whose logarithm is none.
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

/// Pareto with shape 3, moved and stretched to mean 0 and deviation 1. With its scale at 1 it has mean 3/2 and variance
/// 3/4, and is the inverse of the cube root of an even number.
fn pareto(rng: &mut Rng) -> f64 {
    const MEAN: f64 = 1.5;
    const DEVIATION: f64 = 0.866_025_403_784_438_6;
    let even = 1.0 - rng.f64();
    (1.0 / even.cbrt() - MEAN) / DEVIATION
}

#[cfg(test)]
#[expect(
    clippy::cast_precision_loss,
    reason = "counts and nanoseconds of a test are far below 2^53"
)]
mod tests {
    use super::*;
    use wire::{Jitter, Reorder};

    const N: u32 = 100_000;
    const MS: u64 = 1_000_000;

    fn conditions() -> Conditions {
        Conditions::delay(20 * MS)
    }

    fn lossy(ppm: u32, burst_milli: u32) -> Conditions {
        let loss = Some(Loss { ppm, burst_milli });
        Conditions { loss, ..conditions() }
    }

    fn losses(conditions: &Conditions, seed: u64) -> Vec<bool> {
        let mut chance = Chance::new(seed, conditions);
        (0..N).map(|_| chance.loses()).collect()
    }

    /// Lost packets, and runs of them.
    fn counts(losses: &[bool]) -> (u32, u32) {
        let lost = losses.iter().filter(|lost| **lost).count();
        let begins = losses.windows(2).filter(|pair| !pair[0] && pair[1]).count() + usize::from(losses[0]);
        (u32::try_from(lost).unwrap(), u32::try_from(begins).unwrap())
    }

    /// Five deviations: by chance alone, once in two million.
    fn assert_share(hits: u32, share: f64, spread: f64) {
        let (expected, deviation) = (f64::from(N) * share, (f64::from(N) * share * (1.0 - share)).sqrt());
        let off = (f64::from(hits) - expected).abs();
        assert!(off <= 5.0 * spread * deviation, "{hits} instead of {expected}");
    }

    #[test]
    fn a_loss_of_one_percent_of_100_000_packets_is_within_its_binomial_interval() {
        for seed in 0..20 {
            let (lost, runs) = counts(&losses(&lossy(10_000, 1000), seed));
            assert_share(lost, 0.01, 1.0);
            // A run begins where a lost packet follows one that was not.
            assert_share(runs, 0.01 * 0.99, 1.0);
        }
    }

    #[test]
    fn bursts_keep_the_share_and_have_the_mean_length_that_was_asked_for() {
        for (ppm, burst_milli) in [(10_000, 5000), (100_000, 2500), (300_000, 20_000), (500_000, 1500)] {
            let (share, length) = (f64::from(ppm) / 1e6, f64::from(burst_milli) / 1000.0);
            for seed in 0..5 {
                let (lost, runs) = counts(&losses(&lossy(ppm, burst_milli), seed));
                // Neighbours are alike, so that the share varies more: by (1 + r) / (1 - r) in variance, where r is how
                // much two neighbours are.
                let alike = 1.0 - 1.0 / length - share / (1.0 - share) / length;
                assert_share(lost, share, ((1.0 + alike) / (1.0 - alike)).sqrt());
                let mean = f64::from(lost) / f64::from(runs);
                let deviation = (length * (length - 1.0) / f64::from(runs)).sqrt();
                assert!(
                    (mean - length).abs() <= 5.0 * deviation,
                    "runs of {mean} instead of {length}"
                );
            }
        }
    }

    #[test]
    fn extreme_losses_are_what_they_say() {
        for burst_milli in [0, 1000, 5000] {
            assert_eq!(counts(&losses(&lossy(0, burst_milli), 1)).0, 0);
            assert_eq!(counts(&losses(&lossy(MILLION, burst_milli), 1)).0, N);
        }
        // Nine of ten lost in runs of two do not go together; the share is kept.
        let (lost, runs) = counts(&losses(&lossy(900_000, 2000), 1));
        assert_share(lost, 0.9, 1.0);
        assert!((f64::from(lost) / f64::from(runs) - 9.0).abs() < 0.5);
    }

    #[test]
    fn the_same_seed_gives_the_same_and_another_seed_or_link_something_else() {
        let once = losses(&lossy(500_000, 1000), 7);
        assert_eq!(once, losses(&lossy(500_000, 1000), 7));
        assert_ne!(once, losses(&lossy(500_000, 1000), 8));
        let seeds = [
            seed(1, "dc1", "dc2"),
            seed(1, "dc2", "dc1"),
            seed(2, "dc1", "dc2"),
            seed(1, "dc1d", "c2"),
        ];
        for (i, seed) in seeds.iter().enumerate() {
            assert!(!seeds[..i].contains(seed));
        }
    }

    #[test]
    fn one_question_does_not_disturb_the_answers_to_another() {
        let busy = Conditions {
            duplicate_ppm: 500_000,
            corrupt_ppm: 500_000,
            reorder: Some(Reorder { ppm: 500_000, by_ns: 1 }),
            jitter: Some(Jitter {
                shape: JitterShape::Normal { deviation_ns: MS },
                reorder: false,
            }),
            ..lossy(500_000, 1000)
        };
        let mut chance = Chance::new(7, &busy);
        let disturbed: Vec<_> = (0..N)
            .map(|_| {
                chance.duplicates(&busy);
                chance.corrupts(&busy, 100);
                chance.holds_back(&busy);
                chance.delay_ns(&busy);
                chance.loses()
            })
            .collect();
        assert_eq!(disturbed, losses(&lossy(500_000, 1000), 7));
    }

    #[test]
    fn doubling_holding_back_and_corrupting_have_their_probabilities() {
        let busy = Conditions {
            duplicate_ppm: 20_000,
            corrupt_ppm: 30_000,
            reorder: Some(Reorder { ppm: 40_000, by_ns: 9 }),
            ..conditions()
        };
        let mut chance = Chance::new(3, &busy);
        let [mut doubled, mut corrupted, mut held_back] = [0; 3];
        let mut bits = [0u32; 100];
        for _ in 0..N {
            doubled += u32::from(chance.duplicates(&busy));
            held_back += u32::from(chance.holds_back(&busy) == Some(9));
            if let Some(bit) = chance.corrupts(&busy, 100) {
                corrupted += 1;
                bits[bit] += 1;
            }
        }
        assert_share(doubled, 0.02, 1.0);
        assert_share(corrupted, 0.03, 1.0);
        assert_share(held_back, 0.04, 1.0);
        assert!(bits.iter().all(|hits| *hits > 0), "some bits are never flipped");
        assert_eq!(
            chance.corrupts(
                &Conditions {
                    corrupt_ppm: MILLION,
                    ..conditions()
                },
                0
            ),
            None
        );
        let plain = conditions();
        assert!(!chance.duplicates(&plain) && chance.holds_back(&plain).is_none() && !chance.loses());
    }

    /// Delays of so many packets, sorted.
    fn delays(shape: JitterShape) -> Vec<f64> {
        let jitter = Some(Jitter { shape, reorder: false });
        let varied = Conditions { jitter, ..conditions() };
        let mut chance = Chance::new(11, &varied);
        let mut delays: Vec<_> = (0..N).map(|_| chance.delay_ns(&varied) as f64).collect();
        delays.sort_by(f64::total_cmp);
        delays
    }

    fn mean_and_deviation(delays: &[f64]) -> (f64, f64) {
        let mean = delays.iter().sum::<f64>() / delays.len() as f64;
        let variance = delays.iter().map(|delay| (delay - mean).powi(2)).sum::<f64>() / delays.len() as f64;
        (mean, variance.sqrt())
    }

    fn assert_near(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() <= tolerance, "{found} instead of {expected}");
    }

    #[test]
    fn a_normal_variation_has_its_mean_deviation_and_shape() {
        let delays = delays(JitterShape::Normal { deviation_ns: 2 * MS });
        let (mean, deviation) = mean_and_deviation(&delays);
        // The mean of 100 000 has a deviation of 6.3 us, their deviation one of 4.5 us.
        assert_near(mean, 20e6, 32e3);
        assert_near(deviation, 2e6, 23e3);
        // 84.13 % are below one deviation above the mean; that quantile has a deviation of 9.5 us.
        assert_near(delays[84_134], 22e6, 48e3);
    }

    #[test]
    fn an_even_variation_has_its_mean_deviation_and_ends() {
        let delays = delays(JitterShape::Uniform { spread_ns: 3 * MS });
        let (mean, deviation) = mean_and_deviation(&delays);
        assert_near(mean, 20e6, 28e3);
        assert_near(deviation, 3e6 / 3f64.sqrt(), 15e3);
        assert!(delays[0] >= 17e6 && delays[0] < 17.01e6);
        assert!(delays[99_999] <= 23e6 && delays[99_999] > 22.99e6);
    }

    #[test]
    fn a_pareto_variation_has_its_mean_and_its_long_tail() {
        let delays = delays(JitterShape::Pareto { deviation_ns: 2 * MS });
        let scale = 2e6 / 0.75f64.sqrt();
        let (mean, deviation) = mean_and_deviation(&delays);
        assert_near(mean, 20e6, 32e3);
        // Its fourth moment is infinite, so that the deviation of a sample comes close but slowly.
        assert_near(deviation, 2e6, 200e3);
        // Quantiles: the inverse of the cube root of what lies above.
        for (at, above) in [(0, 1.0), (50_000, 0.5), (90_000, 0.1), (99_000, 0.01)] {
            let expected = 20e6 + scale * (f64::cbrt(1.0 / above) - 1.5);
            assert_near(delays[at], expected, 0.03 * scale / above.cbrt());
        }
    }

    #[test]
    fn a_table_gives_each_of_its_entries_as_often() {
        let added_ns = vec![0, MS, 5 * MS, 5 * MS];
        let delays = delays(JitterShape::Table { added_ns });
        let often = |delay: f64| u32::try_from(delays.iter().filter(|found| **found == delay).count()).unwrap();
        assert_share(often(20e6), 0.25, 1.0);
        assert_share(often(21e6), 0.25, 1.0);
        assert_share(often(25e6), 0.5, 1.0);
    }

    #[test]
    fn no_delay_is_below_zero_and_absurd_ones_stop_at_the_end() {
        let shapes = [
            JitterShape::Normal { deviation_ns: u64::MAX },
            JitterShape::Uniform { spread_ns: u64::MAX },
            JitterShape::Pareto { deviation_ns: u64::MAX },
            JitterShape::Table {
                added_ns: vec![u64::MAX],
            },
            JitterShape::Table { added_ns: vec![] },
        ];
        let mut rng = Rng::with_seed(1);
        for shape in shapes {
            for _ in 0..1000 {
                varied(&mut rng, MS, &shape);
            }
        }
        let wide = JitterShape::Uniform { spread_ns: 2 * MS };
        let zeros = (0..1000).filter(|_| varied(&mut rng, MS, &wide) == 0).count();
        assert!((150..350).contains(&zeros), "a quarter is cut off at zero, not {zeros}");
    }
}
