//! Where in the input the text of a page comes from.
//!
//! A sparse map: a point only where the relation between text and input changes. It knows offsets, not cursors.

/// From this text offset on, up to the next point, the text comes from this input offset on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Point {
    text: usize,
    input: usize,
    relation: Relation,
}

/// How the text between two points relates to the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    /// Byte for byte.
    Straight,
    /// All of it stands for one unit.
    Unit,
    /// It is what a repainted line, which begins there, ended as.
    Line,
}

/// Map from the offsets of a rendered text to the offsets of the input it was rendered from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Positions {
    points: Vec<Point>,
}

impl Positions {
    /// From now on the text at `text` comes from the input at `input`. What was known of the text there is
    /// forgotten: nothing came of it, or it was painted over.
    pub(crate) fn push(&mut self, text: usize, input: usize, relation: Relation) {
        while self.points.last().is_some_and(|last| last.text > text) {
            self.points.pop();
        }
        let point = Point { text, input, relation };
        match self.points.last_mut() {
            Some(last) if last.continues_as(&point) => {}
            Some(last) if last.text == text => *last = point,
            _ => self.points.push(point),
        }
    }

    /// Where in the input the text at `text` begins.
    pub(crate) fn input(&self, text: usize) -> usize {
        self.at(text).map_or(text, |point| point.input(text))
    }

    /// The first text offset from `text` on that is not inside the text of one unit; `end` is the length of the
    /// text.
    pub(crate) fn border(&self, text: usize, end: usize) -> usize {
        match self.at(text) {
            Some(point) if point.relation == Relation::Unit && point.text < text => {
                self.points.get(self.behind(text)).map_or(end, |next| next.text)
            }
            _ => text,
        }
    }

    /// Where the text of the unit begins to which the text at `text` belongs.
    pub(crate) fn unit_start(&self, text: usize) -> usize {
        self.at(text).filter(|point| point.relation == Relation::Unit).map_or(text, |point| point.text)
    }

    /// The input begins `offset` bytes later.
    pub(crate) fn shift(&mut self, offset: usize) {
        for point in &mut self.points {
            point.input += offset;
        }
    }

    /// The text in front of `text` is dropped, and `text` becomes offset 0.
    pub(crate) fn cut_front(&mut self, text: usize) {
        let Some(point) = self.at(text) else { return };
        let first = Point { text, input: point.input(text), ..point };
        let behind = self.behind(text);
        self.points.splice(..behind, [first]);
        for point in &mut self.points {
            point.text -= text;
        }
    }

    fn at(&self, text: usize) -> Option<Point> {
        self.behind(text).checked_sub(1).map(|index| self.points[index])
    }

    /// The index of the first point behind `text`.
    fn behind(&self, text: usize) -> usize {
        self.points.partition_point(|point| point.text <= text)
    }
}

impl Point {
    fn input(&self, text: usize) -> usize {
        match self.relation {
            Relation::Straight => self.input + (text - self.text),
            Relation::Unit | Relation::Line => self.input,
        }
    }

    /// Whether `next` says nothing new.
    fn continues_as(&self, next: &Self) -> bool {
        self.relation == Relation::Straight
            && next.relation == Relation::Straight
            && self.input(next.text) == next.input
    }
}
