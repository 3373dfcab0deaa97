//! A capture of a lab's link while something is done to it, as tshark reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::process::Command;
use testbed::capture::Capture;
use testbed::lab::Lab;
use testbed::names::DatacenterName;

/// What is asked of every packet, in the order of [`Packet::parse`].
const FIELDS: [&str; 12] = [
    "frame.time_epoch",
    "frame.interface_name",
    "ip.src",
    "ip.dst",
    "ip.id",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.seq_raw",
    "tcp.len",
    "tcp.flags.syn",
    "tcp.flags.reset",
    "frame.comment",
];

/// A TCP packet at one moment of its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Nanoseconds of the relays' clock.
    pub at_ns: u64,
    /// `dc1:dc2`.
    pub link: String,
    /// `arrival`, `departure`, `drop` or `made`.
    pub class: String,
    /// Who sent it.
    pub from: (Ipv4Addr, u16),
    /// To whom.
    pub to: (Ipv4Addr, u16),
    /// Number that the sender's kernel gave it.
    pub id: String,
    /// Number of its first byte.
    pub seq: u32,
    /// Bytes that it carries.
    pub length: u32,
    /// Whether it opens a connection.
    pub syn: bool,
    /// Whether it breaks one.
    pub reset: bool,
    /// Why it was dropped.
    pub comment: String,
}

impl Packet {
    fn parse(line: &str, epoch_ns: u64) -> Self {
        let fields: Vec<&str> = line.split('\t').collect();
        assert_eq!(fields.len(), FIELDS.len(), "{line}");
        let (seconds, fraction) = fields[0].split_once('.').unwrap();
        assert_eq!(fraction.len(), 9, "nanoseconds: {line}");
        let at_ns = seconds.parse::<u64>().unwrap() * 1_000_000_000 + fraction.parse::<u64>().unwrap();
        let (link, class) = fields[1].split_once(' ').unwrap();
        let end = |address: &str, port: &str| (address.parse().unwrap(), port.parse().unwrap());
        // Newer versions write `True`.
        let flag = |field: &str| matches!(field, "1" | "True");
        Self {
            at_ns: at_ns - epoch_ns,
            link: link.to_owned(),
            class: class.to_owned(),
            from: end(fields[2], fields[5]),
            to: end(fields[3], fields[6]),
            id: fields[4].to_owned(),
            seq: fields[7].parse().unwrap(),
            length: fields[8].parse().unwrap(),
            syn: flag(fields[9]),
            reset: flag(fields[10]),
            comment: fields[11].to_owned(),
        }
    }
}

/// What a link saw of one server.
#[derive(Debug)]
pub struct Trace {
    /// In the order of time.
    pub packets: Vec<Packet>,
}

impl Trace {
    /// Captures dc1-dc2 while `act` goes on; what it saw of connections to a server's address and port.
    pub async fn of<T>(lab: &Lab, server: (Ipv4Addr, u16), act: impl Future<Output = T>) -> (Self, T) {
        let [one, other] = ["dc1", "dc2"].map(|name| DatacenterName::new(name).unwrap());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("link.pcapng");
        let mut file = tokio::fs::File::create(&path).await.unwrap();
        let begun = Capture::begin(lab, &[(&one, &other), (&other, &one)], 262_144).await;
        let mut capture = begun.unwrap();
        let value = capture.follow(&mut file, act).await.unwrap();
        assert!(
            capture.counts().all(|(_, counts)| counts.lost == 0),
            "all is in the file"
        );
        let epoch_ns = capture.counts().next().unwrap().0.epoch_ns;
        let mut tshark = Command::new("tshark");
        let filter = format!("ip.addr == {} && tcp.port == {}", server.0, server.1);
        tshark.arg("-r").arg(&path).args(["-Y", &filter, "-T", "fields"]);
        for field in FIELDS {
            tshark.args(["-e", field]);
        }
        let output = tshark.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let packets = text.lines().map(|line| Packet::parse(line, epoch_ns)).collect();
        (Self { packets }, value)
    }

    /// Packets of a class, on one direction or (empty) both.
    pub fn of_class<'t>(&'t self, class: &'t str, link: &'t str) -> impl Iterator<Item = &'t Packet> {
        let packets = self.packets.iter();
        packets.filter(move |packet| packet.class == class && (link.is_empty() || packet.link == link))
    }

    /// How often each portion of bytes that was dropped was sent, and the times of that.
    pub fn dropped_portions(&self, link: &str) -> BTreeMap<u32, Vec<u64>> {
        let mut portions: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for packet in self.of_class("drop", link).filter(|packet| packet.length > 0) {
            portions.entry(packet.seq).or_default().push(packet.at_ns);
        }
        portions
    }

    /// The clients' ends of connections.
    pub fn connections(&self, server_port: u16) -> BTreeSet<u16> {
        let ports = self.packets.iter().flat_map(|packet| [packet.from.1, packet.to.1]);
        ports.filter(|port| *port != server_port).collect()
    }

    /// Nothing left the link between these times, on one direction or (empty) both.
    #[track_caller]
    pub fn assert_silent(&self, link: &str, from_ns: u64, to_ns: u64) {
        assert!(from_ns < to_ns);
        let mut departures = self.of_class("departure", link);
        let left = departures.find(|packet| (from_ns..to_ns).contains(&packet.at_ns));
        assert_eq!(left, None, "between {from_ns} and {to_ns}");
    }

    /// Nobody broke a connection or opened one.
    #[track_caller]
    pub fn assert_unbroken(&self) {
        let mut packets = self.packets.iter();
        assert_eq!(packets.find(|packet| packet.syn || packet.reset), None);
    }

    /// Every packet that arrived before `end_ns` left, not before `least_ns` after that, and none was dropped; how long each
    /// was held.
    #[track_caller]
    pub fn assert_complete(&self, end_ns: u64, least_ns: u64) -> Vec<(&Packet, u64)> {
        assert_eq!(self.of_class("drop", "").next(), None);
        let arrived = self.of_class("arrival", "").filter(|packet| packet.at_ns < end_ns);
        let held = arrived.map(|arrival| {
            let same = |left: &&Packet| {
                (&left.link, left.from, left.to, &left.id, left.seq)
                    == (&arrival.link, arrival.from, arrival.to, &arrival.id, arrival.seq)
                    && left.at_ns >= arrival.at_ns
            };
            let left = self.of_class("departure", "").find(same);
            let held = left.unwrap_or_else(|| panic!("never left: {arrival:?}")).at_ns - arrival.at_ns;
            assert!(held >= least_ns, "held for {held} ns: {arrival:?}");
            (arrival, held)
        });
        held.collect()
    }
}
