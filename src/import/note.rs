//! What is told about directives that are not simply taken over.

use std::collections::BTreeSet;
use std::fmt;

use super::nginx::Place;
use super::nginx::directives::Directive;

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// What it did is not done: somebody has to decide.
    LeftOut,
    /// It is done in another way, or elsewhere.
    Note,
}

/// One directive, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// How much it matters.
    pub weight: Weight,
    /// Where it stands.
    pub place: Place,
    /// The directive.
    pub directive: String,
    /// Names of others of which the same is to be said.
    pub others: Vec<String>,
    /// What to do, or where it is done.
    pub advice: String,
    /// The key it belongs to; empty: to the site, or the file, as a whole.
    pub key: &'static str,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weight = match self.weight {
            Weight::LeftOut => "left out: ",
            Weight::Note => "",
        };
        write!(f, "{weight}{}: {}", self.place, self.directive)?;
        if !self.others.is_empty() {
            write!(f, " (and {})", self.others.join(", "))?;
        }
        write!(f, ": {}", self.advice)
    }
}

/// The notes of one site, or of what all sites share.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// In the order of the files.
    pub list: Vec<Note>,
    /// Names of directives that need nothing.
    pub idle: BTreeSet<String>,
}

impl Notes {
    /// What this directive did is not done.
    pub fn left_out(
        &mut self,
        directive: &Directive,
        key: &'static str,
        advice: impl Into<String>,
    ) {
        self.add(Weight::LeftOut, directive, key, advice.into());
    }

    /// It is done in another way, or elsewhere.
    pub fn note(&mut self, directive: &Directive, key: &'static str, advice: impl Into<String>) {
        self.add(Weight::Note, directive, key, advice.into());
    }

    /// It needs nothing.
    pub fn idle(&mut self, directive: &Directive) {
        self.idle.insert(directive.name.clone());
    }

    fn add(&mut self, weight: Weight, directive: &Directive, key: &'static str, advice: String) {
        let note = Note {
            weight,
            place: directive.place.clone(),
            directive: directive.shown(),
            others: Vec::new(),
            advice,
            key,
        };
        // A file that several blocks include says it once.
        let same = |other: &&mut Note| {
            (other.weight, &other.advice, other.key) == (weight, &note.advice, key)
        };
        match self.list.iter_mut().find(same) {
            Some(first) if weight == Weight::Note => {
                let name = &directive.name;
                let known =
                    first.directive.split(' ').next() == Some(name) || first.others.contains(name);
                if !known {
                    first.others.push(name.clone());
                }
            }
            Some(first) if first.place == note.place && first.directive == note.directive => {}
            _ => self.list.push(note),
        }
    }
}
