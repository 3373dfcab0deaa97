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

const CARDS: [Card; 5] = [
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
        number: 7,
        title: "Far cache against the database at home",
        question: "Is a cache in the other datacenter faster than the database at home?",
        does_not_show: "That a cache is useless: the cheapest query was measured, a read by primary key of a table that fits in memory. \
             An expensive aggregate was not, and may cost more than a trip. Nothing is said about many clients at once.",
    },
    Card {
        number: 10,
        title: "WAIT and distance",
        question: "How does the price of WAIT grow with the distance to the replica?",
        does_not_show: "How many round trips another command takes: block 12 counts those. That the price is one round trip follows from the slope \
             between every two distances; a ratio at a single one would not tell it from a constant part (block 11 shows such a one). Nothing is said \
             about load, several clients, or a link that loses packets.",
    },
];

impl Card {
    /// Whether its method cuts the link: if nothing was cut, its numbers are of something else.
    #[must_use]
    pub fn cuts(&self) -> bool {
        matches!(self.number, 2 | 3)
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
