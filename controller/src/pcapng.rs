//! The blocks of a pcapng file (draft-ietf-opsawg-pcapng) that a capture needs, as bytes: section, interface, packet and
//! statistics. Packets begin with the IP header, times are nanoseconds since 1970, numbers are little-endian.
//!
//! Refuses to read. What must stay true: every block is padded to four bytes and says its length at both ends, so that a
//! reader can follow a file that is still being written. The crate for this format builds a second generation of two
//! procedural macros for what is a page here.

/// Version of the format.
const VERSION: [u16; 2] = [1, 0];
/// What a reader tells the byte order by.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Packets that begin with an IPv4 or IPv6 header (LINKTYPE_RAW).
const RAW_IP: u16 = 101;
/// Times are counted in 10^-9 s (option `if_tsresol`).
const NANOSECONDS: u8 = 9;
/// The section's length, which nobody knows before its end.
const UNKNOWN_LENGTH: u64 = u64::MAX;
/// Options of every block.
const END_OF_OPTIONS: u16 = 0;
const COMMENT: u16 = 1;

/// Begins a file.
#[derive(Debug, Clone, Copy)]
pub struct Section<'a> {
    /// What wrote it.
    pub program: &'a str,
    /// About the whole file.
    pub comment: &'a str,
}

/// A place where packets were seen; numbered in the order in which they are written, from 0.
#[derive(Debug, Clone, Copy)]
pub struct Interface<'a> {
    /// Short name, by which readers filter.
    pub name: &'a str,
    /// What it is.
    pub description: &'a str,
    /// Most bytes kept of a packet.
    pub snap_bytes: u32,
}

/// A packet.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// Number of the interface.
    pub interface: u32,
    /// Nanoseconds since 1970.
    pub at_ns: u64,
    /// Bytes of the whole packet.
    pub length: u32,
    /// Those that were kept.
    pub bytes: &'a [u8],
    /// About it (empty: nothing).
    pub comment: &'a str,
}

/// What an interface has seen, at the end.
#[derive(Debug, Clone, Copy)]
pub struct Statistics<'a> {
    /// Number of the interface.
    pub interface: u32,
    /// Nanoseconds since 1970.
    pub at_ns: u64,
    /// Packets seen.
    pub seen: u64,
    /// Of these, packets that are not in the file.
    pub lost: u64,
    /// About them (empty: nothing).
    pub comment: &'a str,
}

impl Section<'_> {
    /// Appends the block.
    pub fn write(&self, file: &mut Vec<u8>) {
        let mut block = Block::begin(file, 0x0a0d_0d0a);
        block.put(&BYTE_ORDER.to_le_bytes());
        block.put(&VERSION[0].to_le_bytes());
        block.put(&VERSION[1].to_le_bytes());
        block.put(&UNKNOWN_LENGTH.to_le_bytes());
        block.text(COMMENT, self.comment);
        block.text(4, self.program);
        block.end();
    }
}

impl Interface<'_> {
    /// Appends the block.
    pub fn write(&self, file: &mut Vec<u8>) {
        let mut block = Block::begin(file, 1);
        block.put(&RAW_IP.to_le_bytes());
        block.put(&[0; 2]);
        block.put(&self.snap_bytes.to_le_bytes());
        block.text(2, self.name);
        block.text(3, self.description);
        block.option(9, &[NANOSECONDS]);
        block.end();
    }
}

impl Packet<'_> {
    /// Appends the block.
    pub fn write(&self, file: &mut Vec<u8>) {
        let mut block = Block::begin(file, 6);
        block.put(&self.interface.to_le_bytes());
        block.time(self.at_ns);
        block.put(&length_of(self.bytes).to_le_bytes());
        block.put(&self.length.to_le_bytes());
        block.put(self.bytes);
        block.pad();
        block.text(COMMENT, self.comment);
        block.end();
    }
}

impl Statistics<'_> {
    /// Appends the block.
    pub fn write(&self, file: &mut Vec<u8>) {
        let mut block = Block::begin(file, 5);
        block.put(&self.interface.to_le_bytes());
        block.time(self.at_ns);
        block.text(COMMENT, self.comment);
        block.option(4, &self.seen.to_le_bytes());
        block.option(5, &self.lost.to_le_bytes());
        block.end();
    }
}

/// A block under way.
struct Block<'a> {
    file: &'a mut Vec<u8>,
    start: usize,
    options: bool,
}

impl<'a> Block<'a> {
    fn begin(file: &'a mut Vec<u8>, kind: u32) -> Self {
        let start = file.len();
        file.extend_from_slice(&kind.to_le_bytes());
        // Its length is put here at the end.
        file.extend_from_slice(&[0; 4]);
        Self {
            file,
            start,
            options: false,
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.file.extend_from_slice(bytes);
    }

    fn pad(&mut self) {
        let length = self.file.len() - self.start;
        self.file.resize(self.start + length.next_multiple_of(4), 0);
    }

    /// The upper half comes first, whatever the byte order.
    fn time(&mut self, at_ns: u64) {
        let [low @ .., _, _, _, _] = at_ns.to_le_bytes();
        let [_, _, _, _, high @ ..] = at_ns.to_le_bytes();
        self.put(&high);
        self.put(&low);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        let length = u16::try_from(value.len()).expect("it was cut to that");
        self.put(&code.to_le_bytes());
        self.put(&length.to_le_bytes());
        self.put(value);
        self.pad();
        self.options = true;
    }

    fn text(&mut self, code: u16, text: &str) {
        if !text.is_empty() {
            self.option(code, text.as_bytes());
        }
    }

    fn end(mut self) {
        if self.options {
            self.put(&END_OF_OPTIONS.to_le_bytes());
            self.put(&[0; 2]);
        }
        let length = length_of(&self.file[self.start..]) + 4;
        self.put(&length.to_le_bytes());
        self.file[self.start + 4..self.start + 8].copy_from_slice(&length.to_le_bytes());
    }
}

fn length_of(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("a packet is shorter than 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a call appends behind a byte that is there already.
    fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut file = vec![0xff];
        write(&mut file);
        assert_eq!(file.remove(0), 0xff);
        file
    }

    #[test]
    fn a_section_is_laid_out_as_the_format_says() {
        let section = Section {
            program: "tb",
            comment: "hello",
        };
        #[rustfmt::skip]
        let expected = [
            0x0a, 0x0d, 0x0d, 0x0a, 52, 0, 0, 0,
            0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            1, 0, 5, 0, b'h', b'e', b'l', b'l', b'o', 0, 0, 0,
            4, 0, 2, 0, b't', b'b', 0, 0,
            0, 0, 0, 0,
            52, 0, 0, 0,
        ];
        assert_eq!(written(|file| section.write(file)), expected);
    }

    #[test]
    fn an_interface_is_laid_out_as_the_format_says() {
        let interface = Interface {
            name: "a:b",
            description: "word",
            snap_bytes: 0x102,
        };
        #[rustfmt::skip]
        let expected = [
            1, 0, 0, 0, 48, 0, 0, 0,
            101, 0, 0, 0, 2, 1, 0, 0,
            2, 0, 3, 0, b'a', b':', b'b', 0,
            3, 0, 4, 0, b'w', b'o', b'r', b'd',
            9, 0, 1, 0, 9, 0, 0, 0,
            0, 0, 0, 0,
            48, 0, 0, 0,
        ];
        assert_eq!(written(|file| interface.write(file)), expected);
    }

    #[test]
    fn a_packet_is_laid_out_as_the_format_says() {
        let packet = Packet {
            interface: 7,
            at_ns: 0x0102_0304_0506_0708,
            length: 300,
            bytes: &[0x45, 2, 3, 4, 5],
            comment: "cut",
        };
        #[rustfmt::skip]
        let expected = [
            6, 0, 0, 0, 52, 0, 0, 0,
            7, 0, 0, 0,
            4, 3, 2, 1, 8, 7, 6, 5,
            5, 0, 0, 0, 44, 1, 0, 0,
            0x45, 2, 3, 4, 5, 0, 0, 0,
            1, 0, 3, 0, b'c', b'u', b't', 0,
            0, 0, 0, 0,
            52, 0, 0, 0,
        ];
        assert_eq!(written(|file| packet.write(file)), expected);
    }

    #[test]
    fn a_packet_without_comment_has_no_options_at_all() {
        let packet = Packet {
            interface: 0,
            at_ns: 1,
            length: 4,
            bytes: &[0x45, 0, 0, 4],
            comment: "",
        };
        #[rustfmt::skip]
        let expected = [
            6, 0, 0, 0, 36, 0, 0, 0,
            0, 0, 0, 0,
            0, 0, 0, 0, 1, 0, 0, 0,
            4, 0, 0, 0, 4, 0, 0, 0,
            0x45, 0, 0, 4,
            36, 0, 0, 0,
        ];
        assert_eq!(written(|file| packet.write(file)), expected);
    }

    #[test]
    fn statistics_are_laid_out_as_the_format_says() {
        let statistics = Statistics {
            interface: 1,
            at_ns: 0x0000_0001_0000_0002,
            seen: 5,
            lost: 3,
            comment: "",
        };
        #[rustfmt::skip]
        let expected = [
            5, 0, 0, 0, 52, 0, 0, 0,
            1, 0, 0, 0,
            1, 0, 0, 0, 2, 0, 0, 0,
            4, 0, 8, 0, 5, 0, 0, 0, 0, 0, 0, 0,
            5, 0, 8, 0, 3, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0,
            52, 0, 0, 0,
        ];
        assert_eq!(written(|file| statistics.write(file)), expected);
    }

    #[test]
    fn a_comment_longer_than_an_option_can_be_is_cut() {
        let comment = "x".repeat(100_000);
        let section = Section {
            program: "tb",
            comment: &comment,
        };
        let length = written(|file| section.write(file)).len();
        assert_eq!(length, 24 + 4 + 65_536 + 8 + 4 + 4);
    }
}
