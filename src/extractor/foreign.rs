//! Where the page is inside of SVG or MathML.
//!
//! Foreign content matters to a scanner for three reasons: `<title/>` or
//! `<script/>` closes itself there instead of swallowing the rest of the page as
//! text, `<![CDATA[` opens a section, and a `<link>` in a drawing is no link. The
//! standard decides this with its stack of all open elements; kept here are only
//! those entries of it at which the rules change, which is exact for well-formed
//! drawings and near enough for others (the oracle test counts the difference).

/// Open elements at which the rules change. A page deeper than this is hostile or
/// broken; what goes beyond is read as if it were not nested.
const DEPTH_LIMIT: usize = 512;

/// The elements, outermost first, at which the page went into foreign content
/// (`svg`, `math`) or back into HTML inside of it (such as `foreignObject`).
#[derive(Default)]
pub(super) struct Foreign {
    open: Vec<Door>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Door {
    Svg,
    Math,
    /// An integration point of SVG or MathML, by its name: HTML again.
    Html(Point),
}

type Point = &'static [u8];

const SVG_POINTS: [Point; 3] = [b"foreignobject", b"desc", b"title"];
const MATH_POINTS: [Point; 6] = [b"mi", b"mo", b"mn", b"ms", b"mtext", b"annotation-xml"];

impl Foreign {
    pub fn clear(&mut self) {
        self.open.clear();
    }

    /// Whether the element that is open now is foreign.
    pub fn is_inside(&self) -> bool {
        matches!(self.open.last(), Some(Door::Svg | Door::Math))
    }

    /// Takes a start tag, its name in lower case, and says whether its element is
    /// foreign. `has` tells whether the tag has an attribute that decides it: for
    /// `font`, one that is HTML's; for `annotation-xml`, an encoding that is HTML.
    pub fn open(&mut self, name: &[u8], closes_itself: bool, has: bool) -> bool {
        if self.is_inside() && (breaks_out(name) || name == b"font" && has) {
            self.break_out();
        }
        let door = match (self.open.last(), name) {
            (_, b"svg") => Some(Door::Svg),
            (_, b"math") => Some(Door::Math),
            (Some(Door::Svg), _) => point(&SVG_POINTS, name),
            (Some(Door::Math), b"annotation-xml") if !has => None,
            (Some(Door::Math), _) => point(&MATH_POINTS, name),
            _ => return false,
        };
        if let Some(door) = door
            && !closes_itself
            && self.open.len() < DEPTH_LIMIT
        {
            self.open.push(door);
        }
        true
    }

    /// Takes an end tag, its name in lower case.
    pub fn close(&mut self, name: &[u8]) {
        match (self.open.last(), name) {
            (Some(Door::Svg), b"svg") | (Some(Door::Math), b"math") => {
                self.open.pop();
            }
            (Some(Door::Html(point)), _) if *point == name => {
                self.open.pop();
            }
            // Elements of these names are never inside of foreign content, so this
            // closes one around it, and a drawing that was left open with it.
            (Some(Door::Svg | Door::Math), _) if breaks_out(name) => self.break_out(),
            _ => {}
        }
    }

    /// Back to HTML: an element of HTML around the foreign ones has come to its end,
    /// or one begins that cannot be inside of them.
    pub fn break_out(&mut self) {
        while self.is_inside() {
            self.open.pop();
        }
    }
}

fn point(points: &[Point], name: &[u8]) -> Option<Door> {
    let point = points.iter().find(|point| **point == name)?;
    Some(Door::Html(point))
}

/// Start tags of HTML that end any foreign content around them, by the standard.
#[rustfmt::skip] // One name a line would hide the rest of this file.
fn breaks_out(name: &[u8]) -> bool {
    matches!(
        name,
        b"b" | b"big" | b"blockquote" | b"body" | b"br" | b"center" | b"code" | b"dd"
        | b"div" | b"dl" | b"dt" | b"em" | b"embed" | b"h1" | b"h2" | b"h3" | b"h4"
        | b"h5" | b"h6" | b"head" | b"hr" | b"i" | b"img" | b"li" | b"listing" | b"menu"
        | b"meta" | b"nobr" | b"ol" | b"p" | b"pre" | b"ruby" | b"s" | b"small" | b"span"
        | b"strike" | b"strong" | b"sub" | b"sup" | b"table" | b"tt" | b"u" | b"ul"
        | b"var"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_begins_and_ends_where_the_standard_says() {
        // A start tag opens, a slash in front closes, one behind closes itself.
        for (tags, inside) in [
            ("svg", true),
            ("svg/", false),
            ("svg /svg", false),
            ("svg g /g", true),
            ("svg title", false),
            ("svg title/", true),
            ("svg title /title", true),
            ("svg desc svg /svg /desc", true),
            ("svg p", false),
            ("svg svg div", false),
            ("svg foreignobject svg p", false),
            ("svg foreignobject svg p /foreignobject", true),
            ("div svg /div", false),
            ("math title", true),
            ("math mi", false),
            ("math annotation-xml", true),
            ("svg svg /svg", true),
            ("/svg", false),
        ] {
            let mut foreign = Foreign::default();
            for tag in tags.split(' ') {
                if let Some(name) = tag.strip_prefix('/') {
                    foreign.close(name.as_bytes());
                } else {
                    let name = tag.trim_end_matches('/');
                    foreign.open(name.as_bytes(), name != tag, false);
                }
            }
            assert_eq!(foreign.is_inside(), inside, "{tags}");
        }
        let mut foreign = Foreign::default();
        assert!(foreign.open(b"math", false, false));
        assert!(foreign.open(b"annotation-xml", false, true));
        assert!(!foreign.is_inside());
        assert!(!foreign.open(b"title", false, false));
    }

    #[test]
    fn nesting_is_bounded() {
        let mut foreign = Foreign::default();
        for _ in 0..100_000 {
            foreign.open(b"svg", false, false);
        }
        assert!(foreign.is_inside());
        assert_eq!(foreign.open.len(), DEPTH_LIMIT);
    }
}
