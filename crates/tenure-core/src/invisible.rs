//! Characters that change how a line looks without a sign of their own.

/// Returns whether a reader of a line can't see this character: a control character, a space of no
/// width, a separator of lines, or a mark that turns the direction of the text. Text of other people is
/// shown with escapes for them, so that a line means what it looks like.
#[must_use]
pub fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_direction_and_separators_of_lines_are_invisible() {
        for c in [
            '\n', '\u{1b}', '\u{9b}', '\u{202e}', '\u{2028}', '\u{200b}', '\u{feff}', '\u{2066}',
        ] {
            assert!(is_invisible(c), "{c:?}");
        }
        for c in ['a', ' ', 'é', 'ß', '雪', 'ा', '🚀'] {
            assert!(!is_invisible(c), "{c:?}");
        }
    }
}
