//! When to let packets gather instead of waking for each, as network cards do: to be woken and to fall asleep again costs
//! a relay more than to carry a small packet, and costs whoever wakes it as much again.
//!
//! Pure: the time and the packets that came are arguments. What must stay true: naps are for traffic that goes on while
//! the relay sleeps, so that nobody waits for one. A client that waits for each answer brings few packets in a nap: a
//! trial with it ends after a few, and the next comes much later. No packet that is held for a time is ever napped over;
//! the caller sees to that.

/// How long a nap is. Longer ones save little more, and more fits into a socket's buffers than comes in this time.
pub const NAP_NS: u64 = 100_000;
/// Packets in one nap that make it worth its while.
const WORTH: u32 = 3;
/// Naps in a row that were not, after which there are no more.
const VAIN: u32 = 4;
/// A trial begins when so many packets came in so long, and so many of them at a time. A client that waits for each answer
/// brings one at a time, however fast it is.
const WINDOW_NS: u64 = 2_000_000;
const LIVELY: u32 = 10;
const AT_A_TIME: u32 = 2;
/// Time without a trial after one in vain, doubled with each further one.
const PAUSE_NS: u64 = 10_000_000;
const PAUSE_MOST_NS: u64 = 320_000_000;

/// What the traffic of the last moments was like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moderation {
    state: State,
    pause_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Woken for each packet; so many came since, at so many times.
    Awake { since_ns: u64, packets: u32, times: u32 },
    /// Naps; so many in a row in vain, and whether one was not.
    Napping { vain: u32, proven: bool },
}

impl Moderation {
    /// Without naps.
    pub fn new() -> Self {
        Self {
            state: awake(0),
            pause_ns: PAUSE_NS,
        }
    }

    /// Nothing can be read now, after `packets` that came since the last call: whether to nap rather than to wait for the
    /// next packet.
    pub fn naps(&mut self, now_ns: u64, packets: u32) -> bool {
        match self.state {
            State::Awake { since_ns, .. } if now_ns < since_ns => false,
            State::Awake {
                since_ns,
                packets: before,
                times,
            } => {
                let (packets, times) = (before + packets, times + u32::from(packets > 0));
                let over = now_ns - since_ns > WINDOW_NS;
                if !over && packets >= LIVELY && packets >= AT_A_TIME * times {
                    self.state = State::Napping { vain: 0, proven: false };
                    return true;
                }
                self.state = if over {
                    awake(now_ns)
                } else {
                    State::Awake {
                        since_ns,
                        packets,
                        times,
                    }
                };
                false
            }
            State::Napping { .. } if packets >= WORTH => {
                self.pause_ns = PAUSE_NS;
                self.state = State::Napping { vain: 0, proven: true };
                true
            }
            State::Napping { vain, proven } if vain + 1 < VAIN => {
                self.state = State::Napping { vain: vain + 1, proven };
                true
            }
            State::Napping { proven, .. } => {
                // What was worth it until now may be so again soon.
                let pause_ns = if proven { 0 } else { self.pause_ns };
                if !proven {
                    self.pause_ns = (2 * self.pause_ns).min(PAUSE_MOST_NS);
                }
                self.state = awake(now_ns + pause_ns);
                false
            }
        }
    }

    /// A packet is held for a time, or nothing is known of the moment: no naps until there is traffic again.
    pub fn wakes(&mut self, now_ns: u64) {
        if let State::Napping { .. } = self.state {
            self.state = awake(now_ns);
        }
    }
}

fn awake(since_ns: u64) -> State {
    State::Awake {
        since_ns,
        packets: 0,
        times: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1000;

    /// Calls with so many packets each, so long apart; how many were answered by a nap.
    fn naps(moderation: &mut Moderation, from_ns: u64, span_ns: u64, packets: &[u32]) -> usize {
        let calls = packets.iter().zip(0u64..);
        calls
            .filter(|(packets, call)| moderation.naps(from_ns + call * span_ns, **packets))
            .count()
    }

    #[test]
    fn a_client_that_waits_for_each_answer_is_never_napped_over() {
        let mut moderation = Moderation::new();
        assert_eq!(naps(&mut moderation, 0, 20 * US, &[1; 10_000]), 0);
        assert_eq!(naps(&mut moderation, 1_000_000 * US, 5_000 * US, &[1; 1000]), 0);
    }

    #[test]
    fn many_packets_at_a_time_begin_naps_that_go_on_while_they_are_worth_it() {
        let mut moderation = Moderation::new();
        assert_eq!(
            naps(&mut moderation, 0, 150 * US, &[5; 1000]),
            999,
            "two calls are ten packets"
        );
        // Three in vain are borne with, a fourth is not.
        assert_eq!(naps(&mut moderation, 150_000 * US, 150 * US, &[1, 0, 1, 3]), 4);
        assert_eq!(naps(&mut moderation, 151_000 * US, 150 * US, &[1, 0, 1, 0]), 3);
        // What was worth it may be tried at once.
        assert_eq!(naps(&mut moderation, 152_000 * US, 150 * US, &[5; 3]), 2);
    }

    #[test]
    fn trials_in_vain_come_ever_more_seldom() {
        let mut moderation = Moderation::new();
        // Ten packets at a time begin a trial, and none comes in its naps.
        let pattern: Vec<u32> = [10, 0, 0, 0, 0].repeat(20_000);
        let naps = naps(&mut moderation, 0, 100 * US, &pattern);
        let trials = 10_000 / 320 + 6;
        assert!((20..=trials * VAIN as usize).contains(&naps), "{naps} in ten seconds");
    }

    #[test]
    fn a_packet_that_is_held_ends_the_naps() {
        let mut moderation = Moderation::new();
        assert_eq!(naps(&mut moderation, 0, 150 * US, &[5; 10]), 9);
        moderation.wakes(2_000 * US);
        assert!(!moderation.naps(2_010 * US, 5));
    }
}
