//! What a report says of a block whatever was measured: title, question, and what it does not show. The method is in the
//! history, since it names the parameters of that run.

use crate::history::BlockNumber;

/// See the top of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Card {
    /// Number, as in the record.
    pub number: BlockNumber,
    /// Short title.
    pub title: &'static str,
    /// What it asks.
    pub question: &'static str,
    /// What it does not show.
    pub does_not_show: &'static str,
}

const CARDS: [Card; 14] = [
    Card {
        number: 1,
        title: "Visibility lag",
        question: "When is a write visible on a replica?",
        does_not_show: "The lag under your load: processing, buffers and queues add their own, and the second row shows one load only. \
             That far minus near is one flight holds for isolated small writes on an idle link; a coincidence of two \
             numbers at one distance would not be a law, hence three distances and the slope.",
    },
    Card {
        number: 2,
        title: "Lost acknowledged writes",
        question: "How many acknowledged writes are lost when the far replica is promoted after a cut?",
        does_not_show: "How many writes you would lose: the percentage follows from the rate of writing and the moment of the cut, and is \
             no claim. The promotion is by hand; nothing is said about how long a failover takes or who decides it. A link that delivers late \
             instead of never loses nothing.",
    },
    Card {
        number: 3,
        title: "Price of WAIT 1",
        question: "What does it cost to wait until the far replica has a write?",
        does_not_show: "That WAIT makes a write safe: it reports, it does not undo, and a replica that acknowledged may still not be the one \
             that is promoted. The cost under load, and with several clients at once, is not measured: WAIT delays its own client only.",
    },
    Card {
        number: 4,
        title: "Both halves of a cut, layout A",
        question: "All masters in dc1, all replicas in dc2: which half of a cluster answers after a cut?",
        does_not_show: "How long your cluster would take: the times follow from its node timeout, and differ between versions. What a client library makes of the \
             answers: the probe follows no redirect and repeats nothing. A link that loses or delays some packets, instead of all, is another question.",
    },
    Card {
        number: 5,
        title: "Both halves of a cut, layout B",
        question: "Two masters in dc1, one in dc2 with its replica beside it: which half of a cluster answers after a cut?",
        does_not_show: "That a majority is of no use: it is what lets dc1 serve the slots that it has once cluster-require-full-coverage is off (second rows), while the \
             keys of the other slots are redirected across the cut. How long anything takes elsewhere; what a client library makes of the answers.",
    },
    Card {
        number: 6,
        title: "Both halves of a cut, layout C",
        question: "The same masters, and the replica of dc2's in dc1: which half of a cluster answers after a cut?",
        does_not_show: "That a majority and a replica of every lost master always suffice: the second rows show a replica that is not fresh enough \
             (cluster-replica-validity-factor, printed with its age), and the half is down. How many writes you would lose: that follows from the rate and the node timeout. Two \
             masters lost at once, each with its replica in dc1, are not tried.",
    },
    Card {
        number: 7,
        title: "Far cache against the database at home",
        question: "Is a cache in the other datacenter faster than the database at home?",
        does_not_show: "That a cache is useless: the cheapest query was measured, a read by primary key of a table that fits in memory. \
             An expensive aggregate was not, and may cost more than a trip. Nothing is said about many clients at once.",
    },
    Card {
        number: 8,
        title: "Reads when the cluster is down",
        question: "Who decides about reads when the cluster is down?",
        does_not_show: "How old what is read then is: a replica serves what it had, and so does a master that another has replaced. Settings other than \
             cluster-allow-reads-when-down, which alone is varied. PING and other commands without a key are answered by nodes that are down, so they \
             say nothing of this.",
    },
    Card {
        number: 9,
        title: "Loss and the offset gap",
        question: "What measures the window of loss?",
        does_not_show: "How much you would lose: that is the gap at your moment, and it holds whatever the stream holds, pings and the questions of WAIT \
             too, so its bytes are a bound and not a count of writes. The rates are small enough for the link; one that the link or the replica \
             cannot take would make a gap that grows with time, which is not measured. What a monitor can see is older: the primary hears of a \
             replica's offset once a second.",
    },
    Card {
        number: 10,
        title: "WAIT and distance",
        question: "How does the price of WAIT grow with the distance to the replica?",
        does_not_show: "How many round trips another command takes: block 12 counts those. That the price is one round trip follows from the slope \
             between every two distances; a ratio at a single one would not tell it from a constant part (block 11 shows such a one). Nothing is said \
             about load, several clients, or a link that loses packets.",
    },
    Card {
        number: 11,
        title: "What a relay's sockets cost",
        question: "What does a relay that terminates TCP cost at zero delay, and does TCP_NODELAY on its sockets matter?",
        does_not_show: "What TCP_NODELAY does in your servers and clients: those of Redis, Valkey and the probe set it themselves; it is the relay's that is \
             varied. The 40 ms are Linux's delayed acknowledgement; another kernel has another figure. Throughput is not measured.",
    },
    Card {
        number: 12,
        title: "Flights per operation",
        question: "How many times does an operation pay the delay of the link?",
        does_not_show: "What your client does: a library that greets the server, asks for TLS, or prepares a statement anew for each query pays \
             two flights more for each of these, and a pool pays for the connection only once. The number says nothing of bandwidth: a reply that \
             does not fit in TCP's first window pays again, however few requests there are.",
    },
    Card {
        number: 13,
        title: "Serialising against pipelined",
        question: "What does a link cost that delays one portion after the other, and would it be noticed?",
        does_not_show: "A real link: a wire is pipelined, and what serialises is a defect of an instrument that delays between receiving and sending in one \
             thread. It is here so that its picture is known. Nothing is said about a link that is slow because its rate is low.",
    },
    Card {
        number: 14,
        title: "Calibration",
        question: "Is the link as long as it was asked to be, in each direction and in each mode?",
        does_not_show: "That the link stays so while something else is measured: calibration and watch of each block say that. How it behaves under \
             bulk traffic, or with jitter, loss or a rate. In stream mode only what goes through a terminated connection is delayed by the sockets; \
             datagrams are packets there too.",
    },
];

impl Card {
    /// Whether its method cuts the link: if nothing was cut, its numbers are of something else.
    #[must_use]
    pub fn cuts(&self) -> bool {
        matches!(self.number, 2..=6 | 8 | 9)
    }

    /// Whether other labs may be at work beside it: its claims are about which node answers, and in which state it is, with
    /// seconds between what is told apart. Times of milliseconds, and numbers of writes, would be others beside company.
    #[must_use]
    pub fn bears_company(&self) -> bool {
        matches!(self.number, 4 | 5 | 6 | 8)
    }
}

/// The card of a block.
#[must_use]
pub fn of(number: BlockNumber) -> Option<&'static Card> {
    CARDS.iter().find(|card| card.number == number)
}

/// Numbers of all blocks.
#[cfg(test)]
pub fn numbers() -> impl Iterator<Item = BlockNumber> {
    CARDS.iter().map(|card| card.number)
}
