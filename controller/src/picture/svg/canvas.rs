//! What an SVG is made of: frames, cards, lines, marks and texts, each a line of the file. Whole numbers only, so that a
//! drawing is the same on every machine.

use std::fmt::Write as _;

/// Width of a letter at the size of all texts, 12: of the fonts named, the widest.
const LETTER: f64 = 7.3;

/// Fonts whose letters all have one width.
const FONTS: &str = "'DejaVu Sans Mono','Liberation Mono',Menlo,Consolas,monospace";

/// Arrowheads of links by state, and of replication by set.
const HEADS: [(&str, &str); 4] = [
    ("open", "#333333"),
    ("cut", "#c00000"),
    ("frozen", "#0050b0"),
    ("ports", "#a05a00"),
];

/// A drawing under way.
#[derive(Debug, Default)]
pub struct Canvas {
    shapes: Vec<String>,
    /// Drawn last, so that no line crosses one.
    pub texts: Vec<Text>,
    pub width: i32,
    pub height: i32,
}

/// A text on one line.
#[derive(Debug)]
pub struct Text {
    pub x: i32,
    /// Of the baseline.
    pub y: i32,
    pub centred: bool,
    class: &'static str,
    text: String,
}

impl Text {
    pub fn plain(x: i32, y: i32, text: &str) -> Self {
        Self {
            x,
            y,
            centred: false,
            class: "plain",
            text: text.to_owned(),
        }
    }

    pub fn bold(x: i32, y: i32, text: &str) -> Self {
        Self {
            class: "bold",
            ..Self::plain(x, y, text)
        }
    }

    pub fn trouble(x: i32, y: i32, text: &str) -> Self {
        Self {
            class: "trouble",
            ..Self::plain(x, y, text)
        }
    }

    /// Centred at `x`, of a link in this state.
    pub fn centred(x: i32, y: i32, text: &str, class: &'static str) -> Self {
        Self {
            centred: true,
            class,
            ..Self::plain(x, y, text)
        }
    }

    #[cfg(test)]
    pub fn width(&self) -> f64 {
        wide(&self.text)
    }
}

/// Width of a text.
pub fn wide(text: &str) -> f64 {
    LETTER * text.chars().count() as f64
}

impl Canvas {
    pub fn size(&mut self, width: i32, height: i32) {
        (self.width, self.height) = (width, height);
    }

    pub fn write(&mut self, text: Text) {
        if !text.text.is_empty() {
            self.texts.push(text);
        }
    }

    /// A datacenter.
    pub fn frame(&mut self, x: i32, y: i32, width: i32, height: i32) {
        // Behind the lines that run inside.
        let rect = format!(r#"<rect class="frame" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>"#);
        self.shapes.insert(0, rect);
    }

    /// A node.
    pub fn card(&mut self, x: i32, y: i32, width: i32, height: i32, troubled: bool) {
        let class = if troubled { "card troubled" } else { "card" };
        self.shapes.push(format!(
            r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}" rx="4"/>"#
        ));
    }

    /// Replication.
    pub fn thin(&mut self, path: &str, colour: &str, set: usize) {
        self.shapes.push(format!(
            r#"<path class="thin" d="{path}" stroke="{colour}" marker-end="url(#set{set})"/>"#
        ));
    }

    /// A directed link.
    pub fn link(&mut self, path: &str, state: &str) {
        self.shapes.push(format!(
            r#"<path class="link {state}" d="{path}" marker-end="url(#{state})"/>"#
        ));
    }

    /// Where a link is cut or frozen: a cross, or two bars; half a cross where only ports are cut.
    pub fn mark(&mut self, x: i32, y: i32, state: &str) {
        let path = match state {
            "cut" => format!("M{} {} l12 12 m0 -12 l-12 12", x - 6, y - 6),
            "ports" => format!("M{} {} l12 12", x - 6, y - 6),
            "frozen" => format!("M{} {} v12 m6 -12 v12", x - 3, y - 6),
            _ => return,
        };
        self.shapes.push(format!(r#"<path class="mark {state}" d="{path}"/>"#));
    }

    /// A file of its own.
    pub fn finish(self, title: &str) -> String {
        let (width, height) = (self.width, self.height);
        let title = escaped(title);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"{title}\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\">\n<title>{title}</title>\n"
        );
        svg.push_str(&style());
        svg.push_str(&format!("<defs>\n{}</defs>\n", heads()));
        svg.push_str("<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n");
        self.add_to(&mut svg);
        svg
    }

    /// Part of a page, which has the style and the arrowheads.
    pub fn embed(self, title: &str, told: &str) -> String {
        let (width, height) = (self.width, self.height);
        let (title, told) = (escaped(title), escaped(told));
        let mut svg = format!(
            "<svg class=\"lab\" role=\"img\" aria-label=\"{title}\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
             <title>{title}</title>\n<desc>{told}</desc>\n"
        );
        self.add_to(&mut svg);
        svg
    }

    fn add_to(&self, svg: &mut String) {
        for shape in &self.shapes {
            svg.push_str(shape);
            svg.push('\n');
        }
        for text in &self.texts {
            let anchor = if text.centred { " text-anchor=\"middle\"" } else { "" };
            // Writing to a text cannot fail.
            let _ = writeln!(
                svg,
                "<text class=\"{}\" x=\"{}\" y=\"{}\"{anchor}>{}</text>",
                text.class,
                text.x,
                text.y,
                escaped(&text.text)
            );
        }
        svg.push_str("</svg>\n");
    }
}

fn style() -> String {
    format!(
        "<style>\n\
         text {{ font: 12px {FONTS}; fill: #222222; white-space: pre }}\n\
         .bold {{ font-weight: bold }}\n\
         .trouble {{ fill: #c00000; font-weight: bold }}\n\
         text.open, text.cut, text.frozen, text.ports {{ stroke: #ffffff; stroke-width: 4px; paint-order: stroke }}\n\
         text.cut {{ fill: #c00000 }}\n\
         text.frozen {{ fill: #0050b0 }}\n\
         text.ports {{ fill: #a05a00 }}\n\
         .frame {{ fill: #f5f6f8; stroke: #8a8f98 }}\n\
         .card {{ fill: #ffffff; stroke: #8a8f98 }}\n\
         .troubled {{ stroke: #c00000; stroke-dasharray: 4 3 }}\n\
         .thin {{ fill: none; stroke-width: 1.5 }}\n\
         .link {{ fill: none; stroke-width: 2.5; stroke: #333333 }}\n\
         .link.cut {{ stroke: #c00000; stroke-dasharray: 7 5 }}\n\
         .link.frozen {{ stroke: #0050b0; stroke-dasharray: 2 4 }}\n\
         .link.ports {{ stroke: #a05a00; stroke-dasharray: 12 3 }}\n\
         .mark {{ fill: none; stroke-width: 3 }}\n\
         .mark.cut {{ stroke: #c00000 }}\n\
         .mark.frozen {{ stroke: #0050b0 }}\n\
         .mark.ports {{ stroke: #a05a00 }}\n\
         </style>\n"
    )
}

/// Arrowheads by their ids.
pub fn heads() -> String {
    let links = HEADS.map(|(id, colour)| (id.to_owned(), colour, 4));
    let sets = super::SETS
        .iter()
        .enumerate()
        .map(|(set, &colour)| (format!("set{set}"), colour, 5));
    let mut defs = String::new();
    for (id, colour, size) in links.into_iter().chain(sets) {
        defs.push_str(&format!(
            "<marker id=\"{id}\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"{size}\" markerHeight=\"{size}\" \
             orient=\"auto\"><path d=\"M0 0 L10 5 L0 10 z\" fill=\"{colour}\"/></marker>\n"
        ));
    }
    defs
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            // XML has no other control characters.
            '\t' | '\n' | '\r' => escaped.push(' '),
            other if other.is_control() => {}
            other => escaped.push(other),
        }
    }
    escaped
}
