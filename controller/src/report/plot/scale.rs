//! Where a value lies on an axis, and at which values it has ticks.

use super::Scale;

/// Most ticks of an axis; fewer are chosen so that their labels do not touch.
const TICKS: f64 = 5.0;

/// An axis with its ends.
#[derive(Debug, Clone, Copy)]
pub struct Laid {
    scale: Scale,
    /// Ends in the axis's own measure: values, or their logarithms.
    low: f64,
    high: f64,
    /// Ends on the paper.
    from_px: f64,
    to_px: f64,
}

impl Laid {
    /// Wide enough for all values.
    pub fn out(scale: Scale, values: impl Iterator<Item = f64>, from_px: f64, to_px: f64) -> Self {
        let measured = values.filter_map(|value| measure(scale, value));
        let ends = measured.fold(None, |ends: Option<(f64, f64)>, value| match ends {
            None => Some((value, value)),
            Some((low, high)) => Some((low.min(value), high.max(value))),
        });
        let (low, high) = ends.unwrap_or((0.0, 1.0));
        let (low, high) = match scale {
            Scale::Share => (0.0, 1.0),
            Scale::Linear => {
                let (low, high) = (low.min(0.0), high.max(0.0));
                let step = step(low, high);
                ((low / step).floor() * step, (high / step).ceil() * step)
            }
            Scale::Near => {
                let step = step(low, high);
                ((low / step).floor() * step, (high / step).ceil() * step)
            }
            // Half a tenth of a decade of air, so that no curve runs along the edge.
            Scale::Log => (low - 0.05, high + 0.05),
            Scale::LogFromZero => (0.0, high * 1.05),
        };
        let high = if high > low { high } else { low + 1.0 };
        Self {
            scale,
            low,
            high,
            from_px,
            to_px,
        }
    }

    /// Place of a value on the paper; what lies beyond an end is put there.
    pub fn place(&self, value: f64) -> f64 {
        let measured = measure(self.scale, value)
            .unwrap_or(self.low)
            .clamp(self.low, self.high);
        self.from_px + (self.to_px - self.from_px) * (measured - self.low) / (self.high - self.low)
    }

    /// Values that have a tick, with their labels.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        match self.scale {
            Scale::Share => [0.0, 0.25, 0.5, 0.75, 1.0]
                .map(|share| (share, share.to_string()))
                .to_vec(),
            Scale::Linear | Scale::Near => {
                let step = step(self.low, self.high);
                let first = (self.low / step).round();
                let count = ((self.high - self.low) / step).round();
                let mut ticks = Vec::new();
                let mut i = 0.0;
                while i <= count {
                    let value = (first + i) * step;
                    ticks.push((value, label(value, step)));
                    i += 1.0;
                }
                ticks
            }
            Scale::Log => self.decades(3.6),
            Scale::LogFromZero => {
                let mut ticks = vec![(0.0, "0".to_owned())];
                ticks.extend(self.decades(2.2).into_iter().filter(|(value, _)| *value >= 1.0));
                ticks
            }
        }
    }

    /// Powers of ten within the ends; with twice and five times them if these are at most so many decades apart.
    fn decades(&self, most: f64) -> Vec<(f64, String)> {
        let power = |exponent: i32| 10_f64.powi(exponent);
        let factors: &[f64] = if self.high - self.low > most {
            &[1.0]
        } else {
            &[1.0, 2.0, 5.0]
        };
        let mut ticks = Vec::new();
        for exponent in -6..=12 {
            for factor in factors {
                let value = factor * power(exponent);
                let inside = measure(self.scale, value).is_some_and(|at| (self.low..=self.high).contains(&at));
                if inside {
                    ticks.push((value, label(value, power(exponent))));
                }
            }
        }
        ticks
    }
}

/// A value in the measure of its axis; what has no logarithm has none.
fn measure(scale: Scale, value: f64) -> Option<f64> {
    let measured = match scale {
        Scale::Linear | Scale::Near | Scale::Share => value,
        Scale::Log => value.log10(),
        Scale::LogFromZero => (value + 1.0).log10(),
    };
    measured.is_finite().then_some(measured)
}

/// Distance of ticks: 1, 2 or 5 times a power of ten.
fn step(low: f64, high: f64) -> f64 {
    let rough = (high - low).max(1e-9) / TICKS;
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|factor| factor * power >= rough * 0.999);
    factor.unwrap_or(10.0) * power
}

/// A tick in as many decimals as its step has.
fn label(value: f64, step: f64) -> String {
    let decimals = [1.0, 0.1, 0.01, 0.001]
        .into_iter()
        .position(|unit| step >= unit * 0.999);
    let decimals = decimals.unwrap_or(4);
    let text = format!("{value:.decimals$}");
    if text.trim_start_matches('-').chars().all(|c| c == '0' || c == '.') {
        return "0".to_owned();
    }
    text.replace('-', "\u{2212}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, values: &[f64]) -> Vec<String> {
        let laid = Laid::out(scale, values.iter().copied(), 0.0, 100.0);
        laid.ticks().into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_and_hold_every_value() {
        assert_eq!(
            labels(Scale::Linear, &[3.0, 81.4]),
            ["0", "20", "40", "60", "80", "100"]
        );
        assert_eq!(
            labels(Scale::Linear, &[-180.0, 45.0]),
            ["\u{2212}200", "\u{2212}150", "\u{2212}100", "\u{2212}50", "0", "50"]
        );
        assert_eq!(
            labels(Scale::Near, &[0.97, 1.16]),
            ["0.95", "1.00", "1.05", "1.10", "1.15", "1.20"]
        );
        assert_eq!(labels(Scale::Log, &[0.01, 80.0]), ["0.01", "0.1", "1", "10"]);
        assert_eq!(labels(Scale::Log, &[8.0, 90.0]), ["10", "20", "50", "100"]);
        assert_eq!(
            labels(Scale::LogFromZero, &[0.0, 3548.0]),
            ["0", "1", "10", "100", "1000"]
        );
        assert_eq!(labels(Scale::Linear, &[0.0, 0.3]), ["0", "0.1", "0.2", "0.3"]);
    }

    #[test]
    fn ends_lie_at_the_ends_and_nothing_lies_beyond() {
        for (scale, values) in [
            (Scale::Linear, [-5.0, 17.0]),
            (Scale::Near, [5.0, 17.0]),
            (Scale::Share, [0.0, 1.0]),
            (Scale::Log, [0.1, 17.0]),
            (Scale::LogFromZero, [0.0, 17.0]),
        ] {
            let laid = Laid::out(scale, values.into_iter(), 10.0, 90.0);
            for value in [-1e9, 0.0, 5.0, 1e9, f64::NAN] {
                let place = laid.place(value);
                assert!((10.0..=90.0).contains(&place), "{scale:?} {value} {place}");
            }
            assert!(laid.place(values[0]) < laid.place(values[1]), "{scale:?}");
        }
    }

    #[test]
    fn an_axis_without_values_or_with_one_has_ends_all_the_same() {
        for scale in [Scale::Linear, Scale::Near, Scale::Log, Scale::LogFromZero] {
            for values in [&[][..], &[0.0], &[7.0]] {
                let laid = Laid::out(scale, values.iter().copied(), 0.0, 10.0);
                assert!(laid.place(7.0).is_finite());
            }
        }
    }
}
