//! Quantities with units: shares, rates, sizes, times. Exact: no number passes through a float.

use super::Bad;
use super::delay::parse_delay;
use wire::MILLION;

/// A decimal number times 10^`places`, if it has no more places than that and fits.
pub(super) fn decimal(text: &str, places: u32) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || (text.contains('.') && fraction.is_empty()) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let missing = places.checked_sub(u32::try_from(fraction.len()).ok()?)?;
    let fraction: u64 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let scaled = whole.parse::<u64>().ok()?.checked_mul(10u64.checked_pow(places)?)?;
    scaled.checked_add(fraction * 10u64.pow(missing))
}

/// `number / 10^places`, without zeros at its end.
fn decimal_text(number: u64, places: u32) -> String {
    let unit = 10u64.pow(places);
    let (whole, rest) = (number / unit, number % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let width = usize::try_from(places).expect("a few places");
    let fraction = format!("{rest:0width$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

/// The longest prefix that is a number, and what follows without blanks around.
fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

fn is_bare(text: &str) -> bool {
    let text = text.trim();
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || ".eE_+".contains(c))
}

fn no_unit(hint: String) -> Bad {
    Bad {
        no_unit: true,
        what: "has no unit".to_owned(),
        hint,
    }
}

/// A share in per cent, parts per million.
pub(crate) fn percent(text: &str) -> Result<u32, Bad> {
    const HINT: &str = "write a share of all packets: 1%, 0.01%";
    if is_bare(text) {
        return Err(no_unit(format!("write `{}%` if per cent are meant", text.trim())));
    }
    if text.trim().starts_with('-') {
        return Err(Bad::new("is negative", HINT));
    }
    let (number, unit) = split_unit(text);
    if unit != "%" {
        return Err(Bad::new("is no share", HINT));
    }
    let Some(ppm) = decimal(number, 4) else {
        let fine = number.split_once('.').is_some_and(|(_, places)| places.len() > 4);
        return Err(if fine && decimal(number, 15).is_some() {
            Bad::new("is finer than one packet in a million", "0.0001% is the smallest share")
        } else {
            Bad::new("is no share", HINT)
        });
    };
    u32::try_from(ppm)
        .ok()
        .filter(|&ppm| ppm <= MILLION)
        .ok_or_else(|| Bad::new("is more than 100 %", HINT))
}

/// Parts per million as per cent.
#[must_use]
pub(super) fn percent_text(ppm: u32) -> String {
    format!("{}%", decimal_text(ppm.into(), 4))
}

const RATES: [(&str, u32); 4] = [("gbit", 9), ("mbit", 6), ("kbit", 3), ("bit", 0)];
const LOWEST_RATE: u64 = 1000;
const HIGHEST_RATE: u64 = 100_000_000_000;

/// Bits per second.
pub(super) fn rate(text: &str) -> Result<u64, Bad> {
    const HINT: &str = "write bits per second: 800kbit, 100mbit, 1gbit; or `unlimited`";
    if is_bare(text) {
        return Err(no_unit(format!("write `{}mbit` if megabits are meant", text.trim())));
    }
    let (number, unit) = split_unit(text);
    let unit = unit.to_ascii_lowercase();
    let unit = unit.strip_suffix("/s").unwrap_or(&unit);
    let Some((_, places)) = RATES.iter().find(|(name, _)| *name == unit) else {
        let bytes = matches!(unit, "bps" | "kbps" | "mbps" | "gbps");
        return Err(Bad::new(
            "is no rate",
            if bytes {
                format!(
                    "`{unit}` is bytes to some and bits to others; write bits: {number}{}bit",
                    unit.trim_end_matches("bps")
                )
            } else {
                HINT.to_owned()
            },
        ));
    };
    match decimal(number, *places) {
        Some(rate) if rate < LOWEST_RATE => Err(Bad::new("is below 1kbit", "a link that carries nothing is a cut")),
        Some(rate) if rate <= HIGHEST_RATE => Ok(rate),
        Some(_) => Err(Bad::new(
            "is above 100gbit",
            "no relay carries that; `unlimited` sets no limit",
        )),
        None => Err(Bad::new("is no rate", HINT)),
    }
}

pub(super) fn rate_text(bits_per_s: u64) -> String {
    let (name, places) = RATES
        .into_iter()
        .find(|(_, places)| bits_per_s >= 10u64.pow(*places))
        .unwrap_or(("bit", 0));
    format!("{}{name}", decimal_text(bits_per_s, places))
}

const SIZES: [(&str, u64); 6] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("kB", 1000),
    ("B", 1),
];

/// Bytes within `bounds`.
pub(super) fn size(text: &str, bounds: std::ops::RangeInclusive<u64>) -> Result<u64, Bad> {
    const HINT: &str = "write a size: 64KiB, 8MiB, 1MB";
    if is_bare(text) {
        return Err(no_unit(format!("write `{}KiB` if kibibytes are meant", text.trim())));
    }
    let (number, unit) = split_unit(text);
    let unit = SIZES.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    // Halves of a unit are written, thousandths are not.
    let scaled = unit.and_then(|(_, bytes)| decimal(number, 3)?.checked_mul(*bytes));
    let Some(bytes) = scaled.filter(|bytes| bytes % 1000 == 0).map(|bytes| bytes / 1000) else {
        return Err(Bad::new("is no size", HINT));
    };
    if bytes < *bounds.start() {
        return Err(Bad::new(
            "is too small",
            format!("at least {}", size_text(*bounds.start())),
        ));
    }
    if bytes > *bounds.end() {
        return Err(Bad::new(
            "is too large",
            format!("at most {}", size_text(*bounds.end())),
        ));
    }
    Ok(bytes)
}

pub(super) fn size_text(bytes: u64) -> String {
    let whole = SIZES
        .into_iter()
        .find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit));
    let (name, unit) = whole.unwrap_or(("B", 1));
    format!("{}{name}", bytes / unit)
}

/// A time as a link can have it, nanoseconds.
pub(super) fn time(text: &str) -> Result<u64, Bad> {
    parse_delay(text).map_err(|bad| Bad {
        no_unit: bad == super::BadDelay::NoUnit,
        what: bad.to_string(),
        hint: bad.hint(text),
    })
}

/// A time as one word, exact: `20ms`, `1.5s`, `500us`.
#[must_use]
pub fn time_text(ns: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("s", 9), ("ms", 6), ("us", 3), ("ns", 0)];
    if ns == 0 {
        return "0ms".to_owned();
    }
    let (name, places) = UNITS
        .into_iter()
        .find(|(_, places)| ns >= 10u64.pow(*places))
        .unwrap_or(("ns", 0));
    format!("{}{name}", decimal_text(ns, places))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_exact_parts_per_million() {
        for (text, ppm) in [
            ("1%", 10_000),
            ("0.01%", 100),
            ("0.0001 %", 1),
            ("100%", MILLION),
            ("12.50%", 125_000),
            ("0%", 0),
        ] {
            assert_eq!(percent(text), Ok(ppm), "{text}");
        }
        for bad in [
            "101%",
            "100.0001%",
            "-1%",
            "1",
            "%",
            "1.%",
            ".5%",
            "1 percent",
            "0.00001%",
            "1e2%",
            "99999999999999999999%",
        ] {
            assert!(percent(bad).is_err(), "{bad}");
        }
        assert!(percent("1").is_err_and(|bad| bad.no_unit && bad.hint.contains("`1%`")));
    }

    #[test]
    fn rates_are_bits_and_what_could_be_bytes_is_refused() {
        for (text, rate_) in [
            ("100mbit", 100_000_000),
            ("1.5Mbit", 1_500_000),
            ("2 gbit/s", 2_000_000_000),
            ("8kbit", 8000),
            ("5000bit", 5000),
        ] {
            assert_eq!(rate(text), Ok(rate_), "{text}");
        }
        assert!(rate("10mbps").is_err_and(|bad| bad.hint.contains("10mbit")));
        for bad in [
            "0mbit",
            "500bit",
            "1tbit",
            "200gbit",
            "100",
            "fast",
            "-1mbit",
            "1.0000001mbit",
            "",
        ] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_have_their_bounds() {
        let size = |text| size(text, 1500..=64 << 20);
        assert_eq!(size("8MiB"), Ok(8 << 20));
        assert_eq!(size("1.5kib"), Ok(1536));
        assert_eq!(size("2 MB"), Ok(2_000_000));
        for bad in ["8", "1KiB", "65MiB", "8 MiB/s", "0.0001MiB", "1.0005kB", "-8MiB"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_printed_is_read_as_the_same() {
        let mut random = fastrand::Rng::with_seed(3);
        for round in 0..20_000 {
            let magnitude = 10u64.pow(random.u32(0..11));
            let number = random.u64(..magnitude);
            let round_number = number - number % 10u64.pow(random.u32(0..6));
            for number in [number, round_number] {
                if number <= 10_000_000_000 {
                    assert_eq!(time(&time_text(number)), Ok(number), "{round}");
                }
                if (LOWEST_RATE..=HIGHEST_RATE).contains(&number) {
                    assert_eq!(rate(&rate_text(number)), Ok(number), "{round}");
                }
                assert_eq!(size(&size_text(number), 0..=u64::MAX), Ok(number), "{round}");
                if let Ok(ppm) = u32::try_from(number % u64::from(MILLION + 1)) {
                    assert_eq!(percent(&percent_text(ppm)), Ok(ppm), "{round}");
                }
            }
        }
        assert_eq!(time_text(20_500_000), "20.5ms");
        assert_eq!(time_text(1_500_000_000), "1.5s");
        assert_eq!(size_text(8 << 20), "8MiB");
        assert_eq!(rate_text(2_000_000_000), "2gbit");
    }
}
