//! What people read on: how wide it is, and text broken to fit.

use std::io::IsTerminal;

/// Narrower than this nothing is broken to fit.
const LEAST_WIDTH: usize = 20;

/// The columns of the terminal that stdout is; `None` where it is none, or its width is unknown.
pub(crate) fn width() -> Option<usize> {
    let out = std::io::stdout();
    if !out.is_terminal() {
        return None;
    }
    let columns = usize::from(rustix::termios::tcgetwinsize(out).ok()?.ws_col);
    (columns >= LEAST_WIDTH).then_some(columns)
}

/// Breaks `text` at spaces into lines of at most `width` signs, the first begun with `first`, the others with `rest`. A
/// word longer than a line stands alone.
pub(crate) fn wrap(text: &str, first: &str, rest: &str, width: usize) -> String {
    let mut lines = String::new();
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > width {
            lines.push_str(&line);
            lines.push('\n');
            line = rest.to_owned();
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines + &line + "\n"
}

/// The lines of `text`, those that do not fit into `width` broken at spaces; as they are where nothing limits them.
pub(crate) fn fitted(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_owned() };
    let line = |line: &str| match line.chars().count() > width {
        true => wrap(line, "", "  ", width),
        false => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_do_not_fit_are_broken_at_spaces() {
        assert_eq!(fitted("a b c d\n\nlonger than ten\n", Some(10)), "a b c d\n\nlonger\n  than ten\n");
        assert_eq!(fitted("longer than ten\n", None), "longer than ten\n");
        assert_eq!(fitted("indivisible-word\n", Some(4)), "indivisible-word\n");
    }
}
