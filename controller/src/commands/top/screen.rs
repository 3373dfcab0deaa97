//! What `top` draws, as lines of a given size. Pure: the same values give the same lines. A narrow terminal loses columns,
//! the least wanted first; a low one loses rows, and says how many.

use super::look::{TopLine, TopLink, TopNode};

/// In which order nodes and links stand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// As in the topology.
    #[default]
    File,
    /// Busiest first.
    Busy,
    /// Furthest behind, and fullest, first.
    Behind,
}

impl Order {
    /// The next one.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::File => Self::Busy,
            Self::Busy => Self::Behind,
            Self::Behind => Self::File,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Busy => "busy",
            Self::Behind => "behind",
        }
    }
}

/// What the user has chosen.
#[derive(Debug, Clone, Copy, Default)]
pub struct View {
    /// Order of rows.
    pub order: Order,
    /// Whether looks are paused.
    pub paused: bool,
    /// Time between looks, milliseconds.
    pub interval_ms: u64,
}

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As it is.
    Plain,
    /// The title of a table.
    Title,
    /// Something is not as it should be.
    Bad,
}

/// A line without colour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its text, never wider than asked for.
    pub text: String,
    /// How it looks.
    pub tone: Tone,
}

struct Column {
    title: &'static str,
    /// Columns of the highest number are left out first; 0 stays.
    rank: u8,
    right: bool,
    cells: Vec<String>,
}

const KEYS: &str = "q quit  p pause  s sort  + - interval";

/// The tables alone, for output that is no terminal.
#[must_use]
pub fn tables(line: &TopLine, order: Order, width: usize) -> Vec<Line> {
    let mut nodes = line.nodes.clone();
    let mut links = line.links.clone();
    match order {
        Order::File => {}
        Order::Busy => {
            nodes.sort_by_key(|node| std::cmp::Reverse(node.commands_per_s));
            links.sort_by_key(|link| std::cmp::Reverse(link.bits_per_s));
        }
        Order::Behind => {
            nodes.sort_by_key(|node| std::cmp::Reverse(node.lag_bytes));
            links.sort_by_key(|link| std::cmp::Reverse(link.held_bytes));
        }
    }
    let ready: Vec<bool> = nodes.iter().map(|node| node.health == "ready").collect();
    let passes: Vec<bool> = links.iter().map(|link| link.state.starts_with("up")).collect();
    let mut all = table(node_columns(&nodes), &ready, width);
    all.push(blank());
    all.extend(table(link_columns(&links), &passes, width));
    all.push(blank());
    let relays = &line.relays;
    let columns = vec![
        column("RELAY", 0, false, relays.iter().map(|relay| relay.datacenter.clone())),
        column(
            "SCHEDULING",
            1,
            false,
            relays.iter().map(|relay| relay.scheduling.clone()),
        ),
        column("MODE", 2, false, relays.iter().map(|relay| relay.mode.clone())),
    ];
    all.extend(table(columns, &vec![true; relays.len()], width));
    all
}

/// A whole screen of so many columns and rows.
#[must_use]
pub fn screen(line: &TopLine, view: View, (width, height): (usize, usize)) -> Vec<Line> {
    let interval = format!(
        "{:.1} s",
        f64::from(u32::try_from(view.interval_ms).unwrap_or(u32::MAX)) / 1000.0
    );
    let paused = if view.paused { "  PAUSED" } else { "" };
    let title = format!("lab {}  every {interval}  sort {}{paused}", line.lab, view.order.word());
    let mut lines = vec![
        Line {
            text: clipped(&title, width),
            tone: Tone::Plain,
        },
        blank(),
    ];
    lines.extend(tables(line, view.order, width));
    // The last row is for the keys.
    let room = height.saturating_sub(1);
    if lines.len() > room {
        let hidden = lines.len() + 1 - room.max(1);
        lines.truncate(room.saturating_sub(1));
        lines.push(Line {
            text: clipped(&format!("... {hidden} more lines: a higher terminal shows them"), width),
            tone: Tone::Plain,
        });
    }
    lines.resize(room, blank());
    lines.push(Line {
        text: clipped(KEYS, width),
        tone: Tone::Title,
    });
    lines.truncate(height);
    lines
}

fn node_columns(nodes: &[TopNode]) -> Vec<Column> {
    vec![
        column("NODE", 0, false, nodes.iter().map(|node| node.node.clone())),
        column("DATACENTER", 3, false, nodes.iter().map(|node| node.datacenter.clone())),
        column(
            "ROLE",
            1,
            false,
            nodes.iter().map(|node| node.role.unwrap_or("?").to_owned()),
        ),
        column("OPS/S", 0, true, nodes.iter().map(|node| or_dash(node.commands_per_s))),
        column(
            "LAG",
            0,
            true,
            nodes
                .iter()
                .map(|node| node.lag_bytes.map_or("-".to_owned(), |lag| format!("{lag} B"))),
        ),
        column("HEALTH", 2, false, nodes.iter().map(|node| node.health.clone())),
    ]
}

fn link_columns(links: &[TopLink]) -> Vec<Column> {
    vec![
        column(
            "LINK",
            0,
            false,
            links.iter().map(|link| format!("{}:{}", link.from, link.to)),
        ),
        column("STATE", 1, false, links.iter().map(|link| link.state.clone())),
        column(
            "RATE",
            0,
            true,
            links.iter().map(|link| link.bits_per_s.map_or("-".to_owned(), rate)),
        ),
        column("PKT/S", 5, true, links.iter().map(|link| or_dash(link.packets_per_s))),
        column("QUEUE", 0, true, links.iter().map(|link| bytes(link.held_bytes))),
        column("DROP/S", 2, true, links.iter().map(|link| or_dash(link.dropped_per_s))),
        column(
            "LATE P99",
            4,
            true,
            links.iter().map(|link| link.late_p99_us.map_or("-".to_owned(), late)),
        ),
        column("CONDITIONS", 3, false, links.iter().map(|link| link.conditions.clone())),
    ]
}

fn column(title: &'static str, rank: u8, right: bool, cells: impl Iterator<Item = String>) -> Column {
    Column {
        title,
        rank,
        right,
        cells: cells.collect(),
    }
}

impl Column {
    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|cell| cell.chars().count());
        cells.chain([self.title.len()]).max().unwrap_or_default()
    }
}

/// Two spaces between columns.
fn table(mut columns: Vec<Column>, good: &[bool], width: usize) -> Vec<Line> {
    let whole = |columns: &[Column]| columns.iter().map(Column::width).sum::<usize>() + 2 * (columns.len() - 1);
    while whole(&columns) > width {
        let last = columns.iter().enumerate().max_by_key(|(_, column)| column.rank);
        match last {
            Some((place, column)) if column.rank > 0 => columns.remove(place),
            _ => break,
        };
    }
    let row = |cell: &dyn Fn(&Column) -> String| {
        let cells = columns.iter().map(|column| {
            let (cell, width) = (cell(column), column.width());
            if column.right {
                format!("{cell:>width$}")
            } else {
                format!("{cell:width$}")
            }
        });
        clipped(cells.collect::<Vec<_>>().join("  ").trim_end(), width)
    };
    let title = Line {
        text: row(&|column| column.title.to_owned()),
        tone: Tone::Title,
    };
    let rows = good.iter().enumerate().map(|(place, good)| Line {
        text: row(&|column| column.cells[place].clone()),
        tone: if *good { Tone::Plain } else { Tone::Bad },
    });
    std::iter::once(title).chain(rows).collect()
}

fn blank() -> Line {
    Line {
        text: String::new(),
        tone: Tone::Plain,
    }
}

/// At most so wide. Control characters of a server's words must not reach the terminal.
fn clipped(text: &str, width: usize) -> String {
    let plain = text.chars().map(|one| if one.is_control() { ' ' } else { one });
    if text.chars().count() <= width {
        return plain.collect();
    }
    plain.take(width.saturating_sub(1)).chain(['~']).take(width).collect()
}

fn or_dash(number: Option<u64>) -> String {
    number.map_or("-".to_owned(), |number| number.to_string())
}

fn rate(bits: u64) -> String {
    scaled(bits, 1000, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s"])
}

fn bytes(bytes: u64) -> String {
    scaled(bytes, 1024, &["B", "KiB", "MiB", "GiB"])
}

fn late(us: u64) -> String {
    scaled(us, 1000, &["us", "ms", "s"])
}

/// Three digits or so, in the largest unit that leaves at least one.
fn scaled(number: u64, step: u64, units: &[&str]) -> String {
    let (mut unit, mut factor) = (0, 1);
    while unit + 1 < units.len() && number >= factor * step {
        unit += 1;
        factor *= step;
    }
    let tenths = u128::from(number) * 10 / u128::from(factor);
    match tenths {
        _ if unit == 0 => format!("{number} {}", units[0]),
        0..100 if !tenths.is_multiple_of(10) => format!("{}.{} {}", tenths / 10, tenths % 10, units[unit]),
        _ => format!("{} {}", tenths / 10, units[unit]),
    }
}

#[cfg(test)]
#[path = "screen/tests.rs"]
mod tests;
