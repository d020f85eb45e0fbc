//! The values in a settings file of PHP that a plugin has written, without running it.
//!
//! Comments and strings are told apart from code as PHP tells them, and code is cut into statements. A value counts only when
//! every statement that names its variable is a plain assignment; anything else leaves the value unclear.

/// A settings file, cut into statements.
#[derive(Debug)]
pub struct PhpText(Vec<Statement>);

#[derive(Debug, Default)]
struct Statement {
    /// Without comments.
    text: String,
    /// The same with nothing in its strings.
    code: String,
    /// Whether it is within braces, and so may not be carried out.
    is_nested: bool,
}

impl PhpText {
    /// Cuts the text; none when it holds what is not understood here: heredocs, or a string or comment without an end.
    pub fn read(text: &str) -> Option<PhpText> {
        let mut statements = vec![Statement::default()];
        let mut rest = text.strip_prefix("<?php").unwrap_or(text);
        let mut depth = 0_u32;
        while let Some(character) = rest.chars().next() {
            let statement = statements.last_mut()?;
            if rest.starts_with("<<<") {
                return None;
            } else if let Some(comment) = rest.strip_prefix("/*") {
                rest = comment.split_once("*/")?.1;
                statement.push(" ", " ");
            } else if rest.starts_with("//") || rest.starts_with('#') {
                rest = rest.split_once('\n').map_or("", |(_, after)| after);
                statement.push(" ", " ");
            } else if character == '\'' || character == '"' {
                let (string, after) = rest.split_at_checked(string_end(rest, character)?)?;
                statement.push(string, "''");
                rest = after;
            } else {
                let (this, after) = rest.split_at_checked(character.len_utf8())?;
                rest = after;
                let mut ends = character == ';';
                match character {
                    '{' => depth += 1,
                    '}' => {
                        depth = depth.checked_sub(1)?;
                        ends = depth == 0;
                    }
                    _ => {}
                }
                if character != ';' {
                    statement.push(this, this);
                }
                if ends {
                    statements.push(Statement {
                        is_nested: depth > 0,
                        ..Statement::default()
                    });
                }
            }
        }
        (depth == 0).then_some(PhpText(statements))
    }

    /// The last value assigned to a variable; `Err` when a statement does something else with it.
    pub fn assigned(&self, name: &str) -> Result<Option<&str>, Unclear> {
        let variable = format!("${name}");
        let mut found = None;
        for statement in &self.0 {
            let mentions = mentions(&statement.code, &variable);
            if mentions == 0 {
                continue;
            }
            let value = statement.value_of(&variable);
            found = Some(value.filter(|_| mentions == 1).ok_or(Unclear)?);
        }
        Ok(found)
    }

    /// The last value plainly assigned to a variable, whatever else is done with it.
    pub fn plainly_assigned(&self, name: &str) -> Option<&str> {
        let variable = format!("${name}");
        let mut statements = self.0.iter().rev();
        statements.find_map(|statement| statement.value_of(&variable))
    }

    /// The value of a key in the one array that is returned; `Err` when the key is there more than once.
    pub fn element(&self, name: &str) -> Result<Option<&str>, Unclear> {
        let quoted = format!("'{name}'");
        let mut found = None;
        for statement in &self.0 {
            for (at, _) in statement.text.match_indices(&quoted) {
                let behind = statement.text.get(at + quoted.len()..).unwrap_or_default();
                let Some(value) = behind.trim_start().strip_prefix("=>") else {
                    continue;
                };
                if found.is_some() {
                    return Err(Unclear);
                }
                found = value
                    .split(['\n', ')'])
                    .next()
                    .map(|value| value.trim().trim_end_matches(','));
            }
        }
        Ok(found)
    }
}

/// A value that cannot be told without running the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unclear;

impl Statement {
    fn push(&mut self, text: &str, code: &str) {
        self.text.push_str(text);
        self.code.push_str(code);
    }

    /// The value that it assigns to the variable, if that is all it does and it is always carried out.
    fn value_of(&self, variable: &str) -> Option<&str> {
        let behind = self.text.trim().strip_prefix(variable)?.trim_start();
        let value = behind.strip_prefix('=')?;
        let is_plain = !self.is_nested && !value.starts_with(['=', '>']);
        is_plain.then(|| value.trim())
    }
}

/// How often the code names this variable, and not one whose name only begins so.
fn mentions(code: &str, variable: &str) -> usize {
    let named = code.match_indices(variable).filter(|(at, _)| {
        let next = code
            .get(at + variable.len()..)
            .and_then(|rest| rest.chars().next());
        !next.is_some_and(|next| next.is_alphanumeric() || next == '_')
    });
    named.count()
}

/// Bytes of the string that begins here, with both its quotes.
fn string_end(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    text.char_indices()
        .skip(1)
        .find(|&(_, character)| {
            let ends = character == quote && !escaped;
            escaped = character == '\\' && !escaped;
            ends
        })
        .map(|(at, _)| at + 1)
}

/// A switch: `Err` when it is neither on nor off.
pub fn switch(value: Option<&str>) -> Result<bool, Unclear> {
    let bare = value.unwrap_or("false").trim_matches(['\'', '"']);
    match bare.to_ascii_lowercase().as_str() {
        "1" | "true" => Ok(true),
        "0" | "false" | "" | "null" => Ok(false),
        _ => Err(Unclear),
    }
}

/// A whole number; none where nothing is said.
pub fn number(value: Option<&str>) -> Result<Option<u64>, Unclear> {
    let Some(value) = value else {
        return Ok(None);
    };
    let digits = value.trim_matches(['\'', '"']);
    digits.parse().map(Some).map_err(|_| Unclear)
}

/// Whether nothing is in it.
pub fn is_empty(value: Option<&str>) -> bool {
    let bare: String = value
        .unwrap_or("''")
        .chars()
        .filter(|c| !c.is_whitespace())
        .collect();
    matches!(
        bare.to_ascii_lowercase().as_str(),
        "''" | "\"\"" | "array()" | "[]" | "false" | "0" | "null" | "array('')" | "array(0=>'',)"
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn assigned<'t>(text: &'t PhpText, name: &str) -> Result<Option<&'t str>, Unclear> {
        text.assigned(name)
    }

    fn read(text: &str) -> PhpText {
        PhpText::read(text).expect("understood")
    }

    #[test]
    fn comments_and_strings_are_no_code() {
        let text = read(
            "<?php $a = false; /* \n$a = true;\n*/ // $a = 1;\n# $a = 2;\n$b = '; $a = 3;'; $c = \"x\\\"; $a = 4;\";",
        );
        assert_eq!(assigned(&text, "a"), Ok(Some("false")));
        assert_eq!(assigned(&text, "b"), Ok(Some("'; $a = 3;'")));
        assert_eq!(assigned(&text, "d"), Ok(None));
        let switched = read("<?php $m = 1 /* on */; $n = 1; // trailing\n");
        assert_eq!(assigned(&switched, "m"), Ok(Some("1")));
        assert_eq!(switch(assigned(&switched, "n").unwrap_or(None)), Ok(true));
    }

    #[test]
    fn what_is_not_a_plain_assignment_is_unclear() {
        for text in [
            "if (isset($_COOKIE['x'])) $a = false;",
            "$a[] = 'member';",
            "$a['x'] = 1;",
            "$b = $a = 1;",
            "$a .= 'x';",
            "$a = 1; $b = $a;",
            "foo($a);",
            "if ($b) { $c = 1; $a = 1; }",
            "if ($b) { $a = 1; }",
        ] {
            assert_eq!(assigned(&read(text), "a"), Err(Unclear), "{text}");
        }
        assert_eq!(assigned(&read("$ab = 1; $a = 2;"), "a"), Ok(Some("2")));
        assert_eq!(
            assigned(&read("if ($b) { $c = 1; } $a = 2;"), "a"),
            Ok(Some("2"))
        );
    }

    #[test]
    fn what_has_no_end_or_is_not_known_is_not_read() {
        for text in [
            "$a = <<<X\n$a = 1;\nX;",
            "/* $a = 1;",
            "$a = 'x;",
            "{ $a = 1;",
            "}",
        ] {
            assert!(PhpText::read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn values_are_what_they_are_or_unclear() {
        assert_eq!(switch(None), Ok(false));
        assert_eq!(switch(Some("2")), Err(Unclear));
        assert_eq!(switch(Some("ON")), Err(Unclear));
        assert_eq!(number(Some("60 * 60")), Err(Unclear));
        assert_eq!(number(Some("'3600'")), Ok(Some(3600)));
    }

    /// Text that is nearly PHP.
    fn nearly_php() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("<?php "),
            Just("$a"),
            Just(" = "),
            Just("1"),
            Just(";"),
            Just("'"),
            Just("\""),
            Just("\\"),
            Just("/*"),
            Just("*/"),
            Just("//"),
            Just("#"),
            Just("\n"),
            Just("{"),
            Just("}"),
            Just("<<<"),
            Just("'a' => "),
            Just("\u{e9}"),
            Just(")"),
            Just(","),
        ];
        proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn no_text_panics(text in nearly_php(), any_text in any::<String>()) {
            for text in [text, any_text] {
                if let Some(read) = PhpText::read(&text) {
                    let _ = (read.assigned("a"), read.plainly_assigned("a"), read.element("a"));
                }
            }
        }

        #[test]
        fn a_value_in_a_comment_is_none(before in "[a-z $=;1]{0,12}", after in "[a-z ]{0,8}") {
            let hidden = format!("/* {before} $a = 1; {after} */ $b = 2;");
            let read = PhpText::read(&hidden).expect("understood");
            prop_assert_eq!(read.assigned("a"), Ok(None));
            prop_assert_eq!(read.assigned("b"), Ok(Some("2")));
        }
    }
}
