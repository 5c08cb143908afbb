//! Parser for the output of the test programs.

use std::collections::BTreeMap;

/// Output line of one case: `NAME key=value key=value …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) case: String,
    fields: BTreeMap<String, String>,
}

impl Line {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let case = words.next()?.to_owned();
        let fields: BTreeMap<String, String> = words
            .map(|word| {
                word.split_once('=')
                    .map(|(k, v)| (k.to_owned(), v.to_owned()))
            })
            .collect::<Option<_>>()?;
        (!fields.is_empty()).then_some(Self { case, fields })
    }

    pub(crate) fn text(&self, key: &str) -> &str {
        self.fields.get(key).map_or("", String::as_str)
    }

    /// Returns the number that belongs to this key.
    ///
    /// # Panics
    /// Panics if the line has no number for this key.
    pub(crate) fn number(&self, key: &str) -> i64 {
        self.text(key)
            .parse()
            .unwrap_or_else(|_| panic!("no number `{key}` in {self:?}"))
    }

    /// Returns all fields of the line except the duration.
    pub(crate) fn result(&self) -> String {
        let mut fields = self.fields.clone();
        fields.remove("virtual_ns");
        format!("{} {fields:?}", self.case)
    }
}

/// All lines of a run, by the name of their case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines(pub(crate) BTreeMap<String, Line>);

impl Lines {
    /// Parses the output of a test program.
    ///
    /// # Panics
    /// Panics if there is other output, or if a case appears twice.
    pub(crate) fn parse(text: &[String]) -> Self {
        let mut lines = BTreeMap::new();
        for line in text.iter().filter(|line| *line != "ready") {
            let parsed = Line::parse(line)
                .unwrap_or_else(|| panic!("a program printed {line:?}, in:\n{}", text.join("\n")));
            let twice = lines.insert(parsed.case.clone(), parsed);
            assert!(twice.is_none(), "a case was reported twice: {line:?}");
        }
        assert!(!lines.is_empty(), "a program reported no case at all");
        Self(lines)
    }
}
