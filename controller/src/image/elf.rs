//! What an ELF file asks of the loader: its interpreter and its libraries. Pure, from the file's bytes.
//!
//! Reads 64-bit little-endian files only, which is every machine that Debian and the engine meet on (amd64, arm64,
//! riscv64, ppc64el). Anything else that claims to be ELF is refused; a file that is not ELF asks for nothing.

/// What an ELF file needs to be started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Needs {
    /// Path of the loader (`PT_INTERP`), in programs.
    pub interpreter: Option<String>,
    /// Names of libraries (`DT_NEEDED`), in order.
    pub libraries: Vec<String>,
}

/// A file that begins like ELF and goes on in a way that is not read here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("damaged, or not 64-bit little-endian")]
pub struct Unreadable;

const SEGMENT_LOAD: u32 = 1;
const SEGMENT_DYNAMIC: u32 = 2;
const SEGMENT_INTERPRETER: u32 = 3;
const TAG_NEEDED: u64 = 1;
const TAG_STRINGS: u64 = 5;

struct Segment {
    sort: u32,
    offset: u64,
    address: u64,
    length: u64,
}

/// Reads what a file needs; nothing if it is not ELF.
///
/// # Errors
/// It is ELF of another sort, or cut off.
pub fn needs(file: &[u8]) -> Result<Needs, Unreadable> {
    if !file.starts_with(b"\x7fELF") {
        return Ok(Needs::default());
    }
    if file.get(4..6) != Some(&[2, 1]) {
        return Err(Unreadable);
    }
    let segments = segments(file)?;
    let mut needs = Needs::default();
    for segment in &segments {
        match segment.sort {
            SEGMENT_INTERPRETER => needs.interpreter = Some(text(file, segment.offset)?),
            SEGMENT_DYNAMIC => needs.libraries = libraries(file, segment, &segments)?,
            _ => {}
        }
    }
    Ok(needs)
}

/// Debian's name of the machine that a file is for; `None` if it is not ELF, or for none that servers are built for.
#[must_use]
pub fn architecture(file: &[u8]) -> Option<&'static str> {
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    match number(file, 18, 2).ok()? {
        62 => Some("amd64"),
        183 => Some("arm64"),
        _ => None,
    }
}

fn segments(file: &[u8]) -> Result<Vec<Segment>, Unreadable> {
    let table = number(file, 32, 8)?;
    let size = number(file, 54, 2)?;
    let count = number(file, 56, 2)?;
    (0..count)
        .map(|index| {
            let at = table.checked_add(index * size).ok_or(Unreadable)?;
            let field = |offset: u64| number(file, at.saturating_add(offset), 8);
            let sort = u32::try_from(number(file, at, 4)?).map_err(|_| Unreadable)?;
            Ok(Segment {
                sort,
                offset: field(8)?,
                address: field(16)?,
                length: field(32)?,
            })
        })
        .collect()
}

fn libraries(file: &[u8], dynamic: &Segment, segments: &[Segment]) -> Result<Vec<String>, Unreadable> {
    let mut names = Vec::new();
    let mut strings = None;
    for at in (0..dynamic.length / 16).map(|index| dynamic.offset.saturating_add(index * 16)) {
        match (number(file, at, 8)?, number(file, at.saturating_add(8), 8)?) {
            (0, _) => break,
            (TAG_NEEDED, offset) => names.push(offset),
            (TAG_STRINGS, address) => strings = Some(place(segments, address)?),
            _ => {}
        }
    }
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let strings = strings.ok_or(Unreadable)?;
    names
        .into_iter()
        .map(|offset| text(file, strings.checked_add(offset).ok_or(Unreadable)?))
        .collect()
}

/// Where in the file an address of the loaded program lies.
fn place(segments: &[Segment], address: u64) -> Result<u64, Unreadable> {
    segments
        .iter()
        .filter(|segment| segment.sort == SEGMENT_LOAD)
        .find_map(|segment| {
            let inside = address
                .checked_sub(segment.address)
                .filter(|inside| *inside < segment.length)?;
            segment.offset.checked_add(inside)
        })
        .ok_or(Unreadable)
}

fn number(file: &[u8], at: u64, width: usize) -> Result<u64, Unreadable> {
    let at = usize::try_from(at).map_err(|_| Unreadable)?;
    let bytes = file
        .get(at..at.checked_add(width).ok_or(Unreadable)?)
        .ok_or(Unreadable)?;
    Ok(bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn text(file: &[u8], at: u64) -> Result<String, Unreadable> {
    let rest = usize::try_from(at)
        .ok()
        .and_then(|at| file.get(at..))
        .ok_or(Unreadable)?;
    let end = rest.iter().position(|byte| *byte == 0).ok_or(Unreadable)?;
    String::from_utf8(rest[..end].to_vec()).map_err(|_| Unreadable)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A program that needs these libraries, as little as the loader would take.
    pub(crate) fn program(interpreter: Option<&str>, libraries: &[&str]) -> Vec<u8> {
        let mut strings = vec![0_u8];
        let mut dynamic = Vec::new();
        for library in libraries {
            dynamic.push((TAG_NEEDED, strings.len() as u64));
            strings.extend(library.as_bytes());
            strings.push(0);
        }
        let base = 0x10_000_u64;
        let strings_at = 64 + 3 * 56_u64;
        dynamic.push((TAG_STRINGS, base + strings_at));
        dynamic.push((0, 0));
        let interpreter_at = strings_at + strings.len() as u64;
        strings.extend(interpreter.unwrap_or("").as_bytes());
        strings.push(0);
        let dynamic_at = strings_at + strings.len() as u64;
        let length = dynamic_at + 16 * dynamic.len() as u64;

        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(32, 0);
        file.extend(64_u64.to_le_bytes());
        file.resize(54, 0);
        file.extend(56_u16.to_le_bytes());
        file.extend(3_u16.to_le_bytes());
        file.resize(64, 0);
        let interpreter_sort = if interpreter.is_some() { SEGMENT_INTERPRETER } else { 0 };
        for (sort, offset, address, size) in [
            (SEGMENT_LOAD, 0, base, length),
            (interpreter_sort, interpreter_at, 0, 0),
            (SEGMENT_DYNAMIC, dynamic_at, 0, 16 * dynamic.len() as u64),
        ] {
            file.extend(sort.to_le_bytes());
            file.extend(0_u32.to_le_bytes());
            for field in [offset, address, 0, size, 0, 0] {
                file.extend(field.to_le_bytes());
            }
        }
        file.extend(strings);
        for (tag, value) in dynamic {
            file.extend(tag.to_le_bytes());
            file.extend(value.to_le_bytes());
        }
        file
    }

    #[test]
    fn a_program_names_its_loader_and_libraries() {
        let needs = needs(&program(Some("/lib64/ld.so"), &["libc.so.6", "libm.so.6"])).expect("readable");
        assert_eq!(needs.interpreter.as_deref(), Some("/lib64/ld.so"));
        assert_eq!(needs.libraries, ["libc.so.6", "libm.so.6"]);
    }

    #[test]
    fn what_is_not_elf_needs_nothing() {
        for file in [b"".as_slice(), b"#!/bin/sh\n", b"\x7fEL"] {
            assert_eq!(needs(file), Ok(Needs::default()));
        }
    }

    #[test]
    fn a_cut_off_file_is_refused_wherever_it_is_cut() {
        let whole = program(Some("/lib64/ld.so"), &["libc.so.6"]);
        for length in 4..whole.len() - 16 {
            assert!(needs(&whole[..length]).is_err(), "cut at {length}");
        }
    }

    #[test]
    fn a_32_bit_file_is_refused() {
        let mut file = program(None, &[]);
        file[4] = 1;
        assert_eq!(needs(&file), Err(Unreadable));
    }

    #[test]
    fn this_very_program_can_be_read() {
        let file = std::fs::read(std::env::current_exe().expect("own path")).expect("own file");
        assert!(
            needs(&file)
                .expect("readable")
                .libraries
                .iter()
                .any(|library| library.starts_with("libc.so"))
        );
    }
}
