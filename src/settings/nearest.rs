//! The known key that a mistyped one most likely means.

/// The name of `known` nearest to `written`, when few enough letters differ.
pub fn nearest<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let length = written.chars().count();
    if length > MAX_LENGTH {
        return None;
    }
    let lower = written.to_lowercase().replace('-', "_");
    known
        .into_iter()
        .map(|name| (distance(&lower, name), name))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, name)| *distance <= allowance(length.min(name.len())))
        .map(|(_, name)| name)
}

/// How many letters may differ in a name of this length, and it still be that name.
fn allowance(length: usize) -> usize {
    match length {
        0..=2 => 0,
        3..=4 => 1,
        5..=8 => 2,
        _ => 3,
    }
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one into the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=to.len()).collect();
    let mut previous = None;
    for (row, letter) in from.chars().enumerate() {
        let mut current = vec![row + 1];
        for (column, other) in to.iter().enumerate() {
            let at =
                |line: &[usize], index: usize| line.get(index).copied().unwrap_or(usize::MAX / 2);
            let replaced = at(&above, column) + usize::from(letter != *other);
            let deleted = at(&above, column + 1) + 1;
            let inserted = at(&current, column) + 1;
            let mut least = replaced.min(deleted).min(inserted);
            let left = column.checked_sub(1).and_then(|left| to.get(left));
            if previous == Some(*other) && left == Some(&letter) {
                least = least.min(at(&before, column.saturating_sub(1)) + 1);
            }
            current.push(least);
        }
        previous = Some(letter);
        before = std::mem::replace(&mut above, current);
    }
    above.last().copied().unwrap_or_default()
}

/// A longer name is no misspelling of any key.
const MAX_LENGTH: usize = 64;

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_of_the_finger_is_recognised() {
        let known = [
            "max",
            "min_uses",
            "inactive",
            "valid",
            "errors",
            "errors_valid",
        ];
        assert_eq!(nearest("inactiv", known), Some("inactive"));
        assert_eq!(nearest("vaild", known), Some("valid"));
        assert_eq!(nearest("min-uses", known), Some("min_uses"));
        assert_eq!(nearest("Errors", known), Some("errors"));
        assert_eq!(nearest("mxa", known), Some("max"));
    }

    #[test]
    fn another_word_is_no_slip() {
        let known = ["max", "valid", "errors"];
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("", known), None);
        assert_eq!(nearest("ab", known), None);
        assert_eq!(nearest(&"errors".repeat(100), known), None);
    }
}
