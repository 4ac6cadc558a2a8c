//! A sequence chart as text: a column for each member, and one or two lines for each event.

/// The width of the numbers at the left, and the distance of the columns.
const LEFT: usize = 6;
const COLUMN: usize = 30;

/// A sequence chart.
#[derive(Debug)]
pub(super) struct Chart {
    lines: Vec<String>,
    /// The states at the last event.
    states: Vec<String>,
}

impl Chart {
    pub(super) fn new(members: u32) -> Self {
        let mut head = Line::blank();
        for member in 1..=members {
            head.write(column(member), &format!("member {member}"));
        }
        Self {
            lines: vec![head.finish()],
            states: Vec::new(),
        }
    }

    pub(super) fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }

    /// Adds the states of all members.
    pub(super) fn note(&mut self, number: usize, about: &str, states: &[String]) {
        let mut line = Line::of(number, states);
        line.write(column(1) + 2, about);
        self.lines.push(line.finish());
        self.states = vec![String::new(); states.len()];
        self.add_changes(states);
    }

    /// Adds an event of one member.
    pub(super) fn event(&mut self, number: usize, member: u32, about: &str, states: &[String]) {
        let mut line = Line::of(number, states);
        line.write(column(member) + 2, about);
        self.lines.push(line.finish());
        self.add_changes(states);
    }

    /// Adds a message that arrives.
    pub(super) fn arrow(
        &mut self,
        number: usize,
        (from, to): (u32, u32),
        message: &str,
        states: &[String],
    ) {
        let mut line = Line::of(number, states);
        let (start, end) = (column(from), column(to));
        let (left, right) = (start.min(end) + 1, start.max(end));
        line.write(left, &"-".repeat(right - left));
        let head = if start < end { right - 1 } else { left };
        line.write(head, if start < end { ">" } else { "<" });
        // The label stands beside the sender, so that it does not cover another column.
        let label = format!(" {message} ");
        let at = if start < end {
            left + 2
        } else {
            right - 2 - label.len()
        };
        line.write(at, &label);
        self.lines.push(line.finish());
        self.add_changes(states);
    }

    /// Adds the states that have changed.
    fn add_changes(&mut self, states: &[String]) {
        let mut line = Line::lifelines(states);
        let changed = states.iter().zip(&self.states).enumerate();
        let changed: Vec<_> = changed.filter(|(_, (now, before))| now != before).collect();
        if !changed.is_empty() {
            for (place, (now, _)) in changed {
                line.write(column(place as u32 + 1) + 2, now);
            }
            self.lines.push(line.finish());
        }
        self.states = states.to_vec();
    }
}

const fn column(member: u32) -> usize {
    LEFT + (member as usize - 1) * COLUMN
}

/// A line of characters.
struct Line(Vec<char>);

impl Line {
    const fn blank() -> Self {
        Self(Vec::new())
    }

    /// A line with the lifelines of the members that are up.
    fn lifelines(states: &[String]) -> Self {
        let mut line = Self::blank();
        for (place, state) in states.iter().enumerate() {
            if state != "down" {
                line.write(column(place as u32 + 1), "|");
            }
        }
        line
    }

    fn of(number: usize, states: &[String]) -> Self {
        let mut line = Self::lifelines(states);
        line.write(0, &format!("{number:>3}"));
        line
    }

    fn write(&mut self, at: usize, text: &str) {
        let end = at + text.chars().count();
        if self.0.len() < end {
            self.0.resize(end, ' ');
        }
        for (place, letter) in text.chars().enumerate() {
            self.0[at + place] = letter;
        }
    }

    fn finish(self) -> String {
        let text: String = self.0.into_iter().collect();
        text.trim_end().into()
    }
}
