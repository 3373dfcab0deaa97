//! Fuzzes the relay's end of the control protocol: whatever comes on a line, it is answered once or skipped, the next line
//! is heard, what passes the checks can be carried out by a lane, and nothing is kept without bound. The words of the probe are
//! read too: what is read is written and read again as the same.
//!
//! `cargo bench -p relay --profile fuzz --bench control_fuzz -- [--seconds 60] [--seed N]` prints executions and what was reached;
//! a failure prints the seed of its round, `--round SEED` runs that one again.

#[path = "shared/fuzzing.rs"]
mod fuzzing;

use fastrand::Rng;
use fuzzing::{Asked, Memory};
use relay::check;
use relay::control::serve;
use relay::lane::{Change, Lane};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use wire::{Captured, Conditions, FromRelay, RelayAnswer, RelayLinkConfig, RelayOrder, ToProbe, ToRelay};

/// Most memory that a run may grow by after its first thousand rounds, KiB.
const MOST_GROWTH_KIB: u64 = 64 << 10;
/// Lines of a round.
const LINES: usize = 24;
/// What every long run has to reach.
const MUST: [&str; 7] = [
    "carried out",
    "conditions refused",
    "conditions set",
    "line too long",
    "order of a probe",
    "refused",
    "schedule played",
];

/// Orders as the controller writes them, to be mutilated.
const ORDERS: [&str; 16] = [
    r#""show""#,
    r#"{"heal":{"to":"dc2"}}"#,
    r#"{"cut":{"to":"dc2","kind":"drop"}}"#,
    r#"{"cut":{"to":"dc2","kind":"reset"}}"#,
    r#"{"cut_ports":{"to":"dc2","kind":"reset","ports":[6379,16379,0,65535]}}"#,
    r#"{"freeze":{"to":"dc2"}}"#,
    r#"{"thaw":{"to":"dc2"}}"#,
    r#"{"stop_play":{"to":"dc2"}}"#,
    r#"{"capture":{"to":"dc2","snap_bytes":128}}"#,
    r#"{"set":{"to":"dc2","flush":false,"conditions":{"delay_ns":20000000,"rate_bits_per_s":null,"queue_bytes":8388608}}}"#,
    r#"{"set":{"to":"dc2","flush":true,"conditions":{"delay_ns":5,"rate_bits_per_s":1000,"queue_bytes":1,"mtu":68,"corrupt_ppm":3,"duplicate_ppm":1000000}}}"#,
    r#"{"set":{"to":"dc2","flush":true,"conditions":{"delay_ns":5,"rate_bits_per_s":2,"queue_bytes":9,"loss":{"ppm":10000,"burst_milli":4000},"reorder":{"ppm":9,"by_ns":7}}}}"#,
    r#"{"set":{"to":"dc2","flush":true,"conditions":{"delay_ns":5,"rate_bits_per_s":2,"queue_bytes":9,"jitter":{"shape":{"table":{"added_ns":[1,2,3]}},"reorder":true}}}}"#,
    r#"{"set":{"to":"dc2","flush":true,"conditions":{"delay_ns":5,"rate_bits_per_s":2,"queue_bytes":9,"jitter":{"shape":{"pareto":{"deviation_ns":1000}}}}}}"#,
    r#"{"play":{"to":"dc2","start_ns":1,"schedule":{"steps":[{"at_ns":5,"action":{"cut":{"kind":"drop"}}},{"at_ns":9,"action":"heal"}]}}}"#,
    r#"{"redis":{"target":"198.18.0.1:6379","commands":[["GET","k"]],"timeout_ns":1}}"#,
];

type Reached = BTreeMap<&'static str, u64>;

fn main() -> ExitCode {
    let Some(asked) = Asked::on_the_command_line() else {
        return ExitCode::from(2);
    };
    match asked.round {
        Some(round) if holds(round, &mut Reached::new()) => {
            println!("round {round}: no failure");
            ExitCode::SUCCESS
        }
        Some(_) => ExitCode::FAILURE,
        None => fuzz(asked.seed, asked.span),
    }
}

fn fuzz(seed: u64, span: Duration) -> ExitCode {
    let (mut seeds, mut reached, begun) = (Rng::with_seed(seed), Reached::new(), Instant::now());
    let (mut rounds, mut memory) = (0_u64, Memory::new(MOST_GROWTH_KIB));
    while begun.elapsed() < span {
        if !holds(seeds.u64(..), &mut reached) {
            return ExitCode::FAILURE;
        }
        rounds += 1;
        memory.after(rounds);
    }
    println!(
        "seed {seed}: {rounds} rounds of {LINES} lines in {} s, no failure",
        span.as_secs()
    );
    for (what, count) in &reached {
        println!("{count:>12}  {what}");
    }
    let mut well = memory.holds();
    let missed: Vec<_> = MUST.iter().filter(|what| !reached.contains_key(**what)).collect();
    if rounds >= 10_000 && !missed.is_empty() {
        println!("never reached: {missed:?}");
        well = false;
    }
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn holds(seed: u64, reached: &mut Reached) -> bool {
    let mut input = Vec::new();
    let round = catch_unwind(AssertUnwindSafe(|| {
        round(&mut Rng::with_seed(seed), &mut input, reached);
    }));
    if round.is_err() {
        println!("FAILED in round {seed}: run it again with --round {seed}");
        println!("{}", String::from_utf8_lossy(&input[..input.len().min(4000)]));
    }
    round.is_ok()
}

fn round(rng: &mut Rng, input: &mut Vec<u8>, reached: &mut Reached) {
    let mut asked = 0;
    for _ in 0..LINES {
        let line = line(rng, reached);
        again(&line, reached);
        // One answer for each line that has anything in it.
        asked += usize::from(!line.trim_ascii().is_empty());
        input.extend(line);
        input.push(b'\n');
    }
    input.extend(b"{\"id\":77,\"order\":\"show\"}\n");
    let mut lane = Lane::new(&config(), 100_000, 0, rng.u64(..));
    let mut output = Vec::new();
    let mut now_ns = 1;
    let captured = || RelayAnswer::Captured(Captured::default());
    serve(&mut input.as_slice(), &mut output, |order| {
        now_ns += rng.u64(..1_000_000);
        carry_out(&mut lane, now_ns, order, rng, reached)?;
        *reached.entry("carried out").or_insert(0) += 1;
        Ok(captured())
    })
    .expect("a vector takes everything");
    let text = String::from_utf8(output).expect("answers are text");
    let answers: Vec<FromRelay> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line of the output is an answer"))
        .collect();
    assert_eq!(answers.len(), asked + 1, "a line is answered once");
    let last = answers.last().expect("one more than asked");
    assert!(last.id == 77 && last.result.is_ok(), "the last line was not heard");
    for answer in &answers {
        if answer
            .result
            .as_ref()
            .is_err_and(|error| error.starts_with("line longer"))
        {
            *reached.entry("line too long").or_insert(0) += 1;
        }
        *reached.entry("refused").or_insert(0) += u64::from(answer.result.is_err());
    }
}

/// What passes the checks is carried out by a lane with a packet in it.
fn carry_out(
    lane: &mut Lane,
    now_ns: u64,
    order: RelayOrder,
    rng: &mut Rng,
    reached: &mut Reached,
) -> Result<(), relay::control::OrderError> {
    let change = match order {
        RelayOrder::Set { conditions, flush, .. } => {
            if let Err(error) = check::conditions(&conditions) {
                *reached.entry("conditions refused").or_insert(0) += 1;
                return Err(error.into());
            }
            *reached.entry("conditions set").or_insert(0) += 1;
            let conditions = Box::new(conditions);
            Change::Set { conditions, flush }
        }
        RelayOrder::Play { schedule, start_ns, .. } => {
            check::schedule(&schedule)?;
            *reached.entry("schedule played").or_insert(0) += 1;
            let schedule = Box::new(schedule);
            Change::Play { schedule, start_ns }
        }
        RelayOrder::Cut { kind, .. } => Change::Cut { kind },
        RelayOrder::CutPorts { kind, ports, .. } => Change::CutPorts { kind, ports },
        RelayOrder::Heal { .. } => Change::Heal,
        RelayOrder::Freeze { .. } => Change::Freeze,
        RelayOrder::Thaw { .. } => Change::Thaw,
        RelayOrder::StopPlay { .. } => Change::StopPlay,
        RelayOrder::Capture { snap_bytes, .. } => {
            lane.capture(now_ns, snap_bytes);
            return Ok(());
        }
        _ => return Ok(()),
    };
    lane.change(now_ns, change);
    let packet: Vec<u8> = (0..rng.usize(20..200)).map(|_| rng.u8(..)).collect();
    lane.arrive(now_ns, &packet);
    let later_ns = now_ns.saturating_add(rng.u64(..10_000_000_000));
    // A lane has no more than what arrived, its copies, and resets; a release without end is one that hangs.
    let mut released = 0;
    while lane.release(later_ns, |_| true) {
        released += 1;
        assert!(released < 100_000, "a lane releases without end");
    }
    let _ = lane.status(later_ns);
    Ok(())
}

/// What is read as an order is written and read as the same one.
fn again(line: &[u8], reached: &mut Reached) {
    if let Ok(order) = serde_json::from_slice::<ToProbe>(line) {
        *reached.entry("order of a probe").or_insert(0) += 1;
        let text = serde_json::to_string(&order).expect("an order is JSON");
        let same: ToProbe = serde_json::from_str(&text).expect("its own JSON");
        assert_eq!(same, order);
    }
    if let Ok(order) = serde_json::from_slice::<ToRelay>(line) {
        let text = serde_json::to_string(&order).expect("an order is JSON");
        let same: ToRelay = serde_json::from_str(&text).expect("its own JSON");
        assert_eq!(same, order);
    }
}

fn config() -> RelayLinkConfig {
    RelayLinkConfig {
        to: "dc2".into(),
        network: Ipv4Addr::new(198, 18, 1, 0),
        prefix_len: 24,
        via: Ipv4Addr::new(198, 18, 255, 3),
        conditions: Conditions::delay(1000),
    }
}

/// A line without its end.
fn line(rng: &mut Rng, reached: &mut Reached) -> Vec<u8> {
    if rng.u16(..2000) == 0 {
        *reached.entry("line without end").or_insert(0) += 1;
        return vec![b'x'; rng.usize(250_000..400_000)];
    }
    let order = ORDERS[rng.usize(..ORDERS.len())];
    let mut line = format!("{{\"id\":{},\"order\":{order}}}", rng.u8(..)).into_bytes();
    for _ in 0..[0, 0, 1, 1, 2, 4][rng.usize(..6)] {
        mutilate(rng, &mut line);
    }
    line.retain(|byte| *byte != b'\n');
    line
}

fn mutilate(rng: &mut Rng, line: &mut Vec<u8>) {
    if line.is_empty() {
        return;
    }
    let at = rng.usize(..line.len());
    match rng.u8(..6) {
        0 => line[at] = rng.u8(..),
        1 => line.truncate(at),
        2 => {
            let other = ORDERS[rng.usize(..ORDERS.len())].as_bytes();
            let from = rng.usize(..other.len());
            line.splice(at..at, other[from..].iter().copied());
        }
        _ => {
            // Another number where one stands: most of what is wrong with an order is a number.
            let Some(begin) = (at..line.len()).find(|&i| line[i].is_ascii_digit()) else {
                return;
            };
            let end = (begin..line.len())
                .find(|&i| !line[i].is_ascii_digit())
                .unwrap_or(line.len());
            const NUMBERS: [&str; 12] = [
                "0",
                "1",
                "-1",
                "68",
                "1000000",
                "1000001",
                "4294967295",
                "4294967296",
                "9223372036854775807",
                "18446744073709551615",
                "1e400",
                "null",
            ];
            let number = NUMBERS[rng.usize(..NUMBERS.len())];
            line.splice(begin..end, number.bytes());
        }
    }
}
