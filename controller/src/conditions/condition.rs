//! One condition of a link as `KEY=VALUE`, and all of them.
//!
//! ```text
//! delay=TIME                      one way
//! jitter=TIME                     evenly up to so much earlier or later; the same as uniform:TIME
//!        uniform:TIME | normal:TIME | pareto:TIME | table:TIME/TIME/...    each also with :reorder
//! loss=SHARE[:burst:PACKETS]      independent, or in runs of so many packets on average
//! duplicate=SHARE   corrupt=SHARE
//! reorder=SHARE:by:TIME           so many packets are held back for so long
//! rate=RATE   queue=SIZE   mtu=BYTES
//! ```
//! `none` takes a condition away, `default` is what a link has of which nothing is said.

use super::Bad;
use super::quantity::{decimal, percent, percent_text, rate, rate_text, size, size_text, time, time_text};
use wire::{Conditions, Jitter, JitterShape, Loss, MILLION, Reorder};

/// Most entries of an empirical table.
pub(super) const MOST_TABLE: usize = 4096;
/// Bytes that may wait at the rate: a packet at least, and no more than a relay holds for a link.
const QUEUE_BYTES: std::ops::RangeInclusive<u64> = 1500..=64 << 20;
/// The smallest that every IPv4 host must take, and the largest that a bridge carries.
const MTU: std::ops::RangeInclusive<u16> = 576..=9000;
/// Mean length of a run of lost packets, thousandths.
const BURST_MILLI: std::ops::RangeInclusive<u64> = 1000..=1_000_000;

/// Which condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// The delay.
    Delay,
    /// Its variation.
    Jitter,
    /// Packets that vanish.
    Loss,
    /// Packets that arrive twice.
    Duplicate,
    /// Packets that are overtaken.
    Reorder,
    /// Packets that are damaged.
    Corrupt,
    /// The rate.
    Rate,
    /// What may wait for its turn at the rate.
    Queue,
    /// The largest packet.
    Mtu,
}

impl Key {
    /// All of them, in the order in which they are printed.
    pub const ALL: [Self; 9] = [
        Self::Delay,
        Self::Jitter,
        Self::Loss,
        Self::Duplicate,
        Self::Reorder,
        Self::Corrupt,
        Self::Rate,
        Self::Queue,
        Self::Mtu,
    ];

    /// As files and the command line write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delay => "delay",
            Self::Jitter => "jitter",
            Self::Loss => "loss",
            Self::Duplicate => "duplicate",
            Self::Reorder => "reorder",
            Self::Corrupt => "corrupt",
            Self::Rate => "rate",
            Self::Queue => "queue",
            Self::Mtu => "mtu",
        }
    }

    /// From what a file or the command line says.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.as_str() == text)
    }
}

/// What is said of one condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Nanoseconds, one way.
    Delay(u64),
    /// Variation.
    Jitter(Option<Jitter>),
    /// Loss.
    Loss(Option<Loss>),
    /// Parts per million.
    Duplicate(u32),
    /// Reordering.
    Reorder(Option<Reorder>),
    /// Parts per million.
    Corrupt(u32),
    /// Bits per second.
    Rate(Option<u64>),
    /// Bytes.
    Queue(u64),
    /// Bytes.
    Mtu(Option<u16>),
}

impl Condition {
    /// From the two sides of `KEY=VALUE`.
    ///
    /// # Errors
    /// What is wrong with the value.
    pub fn parse(key: Key, value: &str) -> Result<Self, Bad> {
        let value = value.trim();
        let default = value == "default";
        let none = value == "none" || default;
        let standard = Conditions::delay(0);
        Ok(match key {
            Key::Delay if none => {
                return Err(Bad::new("is no time", "every link has a delay; write 0ms for none"));
            }
            Key::Delay => Self::Delay(time(value)?),
            Key::Jitter if none => Self::Jitter(None),
            Key::Jitter => Self::Jitter(jitter(value)?),
            Key::Loss if none => Self::Loss(None),
            Key::Loss => Self::Loss(loss(value)?),
            Key::Duplicate if none => Self::Duplicate(0),
            Key::Duplicate => Self::Duplicate(percent(value)?),
            Key::Reorder if none => Self::Reorder(None),
            Key::Reorder => Self::Reorder(reorder(value)?),
            Key::Corrupt if none => Self::Corrupt(0),
            Key::Corrupt => Self::Corrupt(percent(value)?),
            Key::Rate if default => Self::Rate(standard.rate_bits_per_s),
            Key::Rate if none || value == "unlimited" => Self::Rate(None),
            Key::Rate => Self::Rate(Some(rate(value)?)),
            Key::Queue if default => Self::Queue(standard.queue_bytes),
            Key::Queue => Self::Queue(size(value, QUEUE_BYTES)?),
            Key::Mtu if none => Self::Mtu(None),
            Key::Mtu => Self::Mtu(Some(mtu(value)?)),
        })
    }

    /// Which condition it is.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::Delay(_) => Key::Delay,
            Self::Jitter(_) => Key::Jitter,
            Self::Loss(_) => Key::Loss,
            Self::Duplicate(_) => Key::Duplicate,
            Self::Reorder(_) => Key::Reorder,
            Self::Corrupt(_) => Key::Corrupt,
            Self::Rate(_) => Key::Rate,
            Self::Queue(_) => Key::Queue,
            Self::Mtu(_) => Key::Mtu,
        }
    }

    /// The one of `conditions`.
    #[must_use]
    pub fn of(key: Key, conditions: &Conditions) -> Self {
        match key {
            Key::Delay => Self::Delay(conditions.delay_ns),
            Key::Jitter => Self::Jitter(conditions.jitter.clone()),
            Key::Loss => Self::Loss(conditions.loss),
            Key::Duplicate => Self::Duplicate(conditions.duplicate_ppm),
            Key::Reorder => Self::Reorder(conditions.reorder),
            Key::Corrupt => Self::Corrupt(conditions.corrupt_ppm),
            Key::Rate => Self::Rate(conditions.rate_bits_per_s),
            Key::Queue => Self::Queue(conditions.queue_bytes),
            Key::Mtu => Self::Mtu(conditions.mtu),
        }
    }

    /// Puts it into `conditions`; the others stay.
    pub fn apply(&self, conditions: &mut Conditions) {
        match self {
            Self::Delay(delay_ns) => conditions.delay_ns = *delay_ns,
            Self::Jitter(jitter) => conditions.jitter.clone_from(jitter),
            Self::Loss(loss) => conditions.loss = *loss,
            Self::Duplicate(ppm) => conditions.duplicate_ppm = *ppm,
            Self::Reorder(reorder) => conditions.reorder = *reorder,
            Self::Corrupt(ppm) => conditions.corrupt_ppm = *ppm,
            Self::Rate(rate) => conditions.rate_bits_per_s = *rate,
            Self::Queue(bytes) => conditions.queue_bytes = *bytes,
            Self::Mtu(mtu) => conditions.mtu = *mtu,
        }
    }

    /// The value as it is written; [`parse`](Self::parse) reads it as the same.
    #[must_use]
    pub fn value(&self) -> String {
        let none = || "none".to_owned();
        match self {
            Self::Delay(delay_ns) => time_text(*delay_ns),
            Self::Jitter(None) | Self::Loss(None) | Self::Reorder(None) | Self::Mtu(None) => none(),
            Self::Duplicate(0) | Self::Corrupt(0) => none(),
            Self::Jitter(Some(jitter)) => jitter_text(jitter),
            Self::Loss(Some(loss)) => loss_text(*loss),
            Self::Duplicate(ppm) | Self::Corrupt(ppm) => percent_text(*ppm),
            Self::Reorder(Some(reorder)) => {
                format!("{}:by:{}", percent_text(reorder.ppm), time_text(reorder.by_ns))
            }
            Self::Rate(None) => "unlimited".to_owned(),
            Self::Rate(Some(rate)) => rate_text(*rate),
            Self::Queue(bytes) => size_text(*bytes),
            Self::Mtu(Some(mtu)) => mtu.to_string(),
        }
    }
}

/// What `to` says otherwise than `from`, as `KEY=VALUE` words (empty: nothing).
#[must_use]
pub fn difference(from: &Conditions, to: &Conditions) -> String {
    let changed = Key::ALL.into_iter().filter_map(|key| {
        let condition = Condition::of(key, to);
        (Condition::of(key, from) != condition).then(|| format!("{}={}", key.as_str(), condition.value()))
    });
    changed.collect::<Vec<_>>().join(" ")
}

/// All that is said of a link: its delay, and what is not the default.
#[must_use]
pub fn text(conditions: &Conditions) -> String {
    let delay = format!("delay={}", time_text(conditions.delay_ns));
    let rest = difference(&Conditions::delay(conditions.delay_ns), conditions);
    if rest.is_empty() {
        delay
    } else {
        format!("{delay} {rest}")
    }
}

/// As [`text`], for people: of a long table only its length.
#[must_use]
pub fn shown(conditions: &Conditions) -> String {
    const SHOWN: usize = 6;
    if let Some(Jitter {
        shape: JitterShape::Table { added_ns },
        ..
    }) = &conditions.jitter
        && added_ns.len() > SHOWN
    {
        let whole = Condition::of(Key::Jitter, conditions).value();
        return text(conditions).replacen(&whole, &format!("table:({} times)", added_ns.len()), 1);
    }
    text(conditions)
}

/// What of these conditions relays in stream mode cannot have: there only the delay is applied to connections.
#[must_use]
pub fn not_in_stream_mode(conditions: &Conditions) -> Vec<Key> {
    let plain = Conditions::delay(conditions.delay_ns);
    let keys = Key::ALL.into_iter();
    keys.filter(|&key| Condition::of(key, conditions) != Condition::of(key, &plain))
        .collect()
}

/// Whether conditions that are right one by one fit each other.
///
/// # Errors
/// The condition that does not fit, and why.
pub fn check(conditions: &Conditions) -> Result<(), (Key, Bad)> {
    if let Some(Jitter {
        shape: JitterShape::Uniform { spread_ns },
        ..
    }) = conditions.jitter
        && spread_ns > conditions.delay_ns
    {
        let delay = time_text(conditions.delay_ns);
        let hint = format!("nothing arrives before it was sent: at most {delay}, the delay; `normal` ends there");
        return Err((Key::Jitter, Bad::new("is more than the delay", hint)));
    }
    if let Some(Loss { ppm, burst_milli }) = conditions.loss {
        // Gilbert's model: with runs of b packets on average, at least one packet arrives between two of them.
        let most = u64::from(MILLION) * u64::from(burst_milli) / (u64::from(burst_milli) + 1000);
        if burst_milli > 1000 && u64::from(ppm) > most {
            let most = percent_text(u32::try_from(most).expect("less than a million"));
            let hint = format!("between two runs of lost packets one arrives: at most {most} with this burst");
            return Err((Key::Loss, Bad::new("is more than runs of this length can lose", hint)));
        }
    }
    Ok(())
}

fn jitter(text: &str) -> Result<Option<Jitter>, Bad> {
    const HINT: &str = "write 2ms (evenly, up to so much earlier or later), uniform:2ms, normal:1ms, pareto:1ms or \
                        table:0ms/1ms/12ms; `:reorder` behind it lets packets overtake";
    let (text, reorder) = match text.strip_suffix(":reorder") {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let (shape, value) = text.split_once(':').unwrap_or(("uniform", text));
    let shape = match shape {
        "uniform" => JitterShape::Uniform {
            spread_ns: time(value)?,
        },
        "normal" => JitterShape::Normal {
            deviation_ns: time(value)?,
        },
        "pareto" => JitterShape::Pareto {
            deviation_ns: time(value)?,
        },
        "table" => table(value.split('/').map(time).collect::<Result<_, _>>()?)?,
        _ => return Err(Bad::new("is no jitter", HINT)),
    };
    Ok(varies(Jitter { shape, reorder }))
}

/// An empirical table.
pub(crate) fn table(added_ns: Vec<u64>) -> Result<JitterShape, Bad> {
    match added_ns.len() {
        0 => Err(Bad::new("is empty", "a table has at least one time: [0ms, 1ms, 12ms]")),
        1..=MOST_TABLE => Ok(JitterShape::Table { added_ns }),
        more => Err(Bad::new(
            format!("has {more} times"),
            format!("a table has at most {MOST_TABLE}; take a sample of yours"),
        )),
    }
}

/// No jitter is said in one way only.
pub(crate) fn varies(jitter: Jitter) -> Option<Jitter> {
    let none = match &jitter.shape {
        JitterShape::Uniform { spread_ns: ns }
        | JitterShape::Normal { deviation_ns: ns }
        | JitterShape::Pareto { deviation_ns: ns } => *ns == 0,
        JitterShape::Table { added_ns } => added_ns.iter().all(|ns| *ns == 0),
    };
    (!none).then_some(jitter)
}

fn jitter_text(jitter: &Jitter) -> String {
    let shape = match &jitter.shape {
        JitterShape::Uniform { spread_ns } => format!("uniform:{}", time_text(*spread_ns)),
        JitterShape::Normal { deviation_ns } => format!("normal:{}", time_text(*deviation_ns)),
        JitterShape::Pareto { deviation_ns } => format!("pareto:{}", time_text(*deviation_ns)),
        JitterShape::Table { added_ns } => {
            let times: Vec<String> = added_ns.iter().map(|ns| time_text(*ns)).collect();
            format!("table:{}", times.join("/"))
        }
    };
    if jitter.reorder {
        format!("{shape}:reorder")
    } else {
        shape
    }
}

fn loss(text: &str) -> Result<Option<Loss>, Bad> {
    let (share, burst) = match text.split_once(':') {
        None => (text, None),
        Some((share, rest)) => match rest.strip_prefix("burst:") {
            Some(burst) => (share, Some(burst)),
            None => {
                return Err(Bad::new(
                    "is no loss",
                    "write a share, 1%, or with runs of lost packets 1%:burst:4",
                ));
            }
        },
    };
    Ok(loss_of(percent(share)?, burst.map(burst_milli).transpose()?))
}

/// A loss; of runs nothing said is independent.
pub(crate) fn loss_of(ppm: u32, burst_milli: Option<u32>) -> Option<Loss> {
    (ppm > 0).then_some(Loss {
        ppm,
        burst_milli: burst_milli.unwrap_or(1000),
    })
}

/// Mean length of a run, thousandths of a packet.
pub(crate) fn burst_milli(text: &str) -> Result<u32, Bad> {
    const HINT: &str = "the mean length of a run of lost packets: 1 (independent) to 1000, e.g. 4 or 2.5";
    let milli = decimal(text.trim(), 3).ok_or_else(|| Bad::new("is no burst", HINT))?;
    if !BURST_MILLI.contains(&milli) {
        return Err(Bad::new("is no length of a run of lost packets", HINT));
    }
    Ok(u32::try_from(milli).expect("at most a million"))
}

fn loss_text(loss: Loss) -> String {
    let share = percent_text(loss.ppm);
    if loss.burst_milli == 1000 {
        return share;
    }
    let (whole, rest) = (loss.burst_milli / 1000, loss.burst_milli % 1000);
    let burst = format!("{whole}.{rest:03}");
    format!("{share}:burst:{}", burst.trim_end_matches('0').trim_end_matches('.'))
}

fn reorder(text: &str) -> Result<Option<Reorder>, Bad> {
    let Some((share, by)) = text.split_once(":by:") else {
        // A wrong share has a better hint than a missing time.
        percent(text.split(':').next().unwrap_or_default())?;
        return Err(Bad::new(
            "does not say by how much",
            format!(
                "write how long such a packet is held back: {}:by:2ms",
                text.split(':').next().unwrap_or_default()
            ),
        ));
    };
    reorder_of(percent(share)?, time(by)?)
}

/// A reordering.
pub(crate) fn reorder_of(ppm: u32, by_ns: u64) -> Result<Option<Reorder>, Bad> {
    if by_ns == 0 && ppm > 0 {
        return Err(Bad::new(
            "overtakes nothing",
            "a packet is held back for some time: `by` 2ms",
        ));
    }
    Ok((ppm > 0).then_some(Reorder { ppm, by_ns }))
}

fn mtu(text: &str) -> Result<u16, Bad> {
    let hint = || format!("bytes of the largest IP packet, {} to {}: 1400", MTU.start(), MTU.end());
    let number: u64 = text.parse().map_err(|_| Bad::new("is no MTU", hint()))?;
    u16::try_from(number)
        .ok()
        .filter(|mtu| MTU.contains(mtu))
        .ok_or_else(|| Bad::new("is no MTU of any link", hint()))
}

#[cfg(test)]
mod tests;
