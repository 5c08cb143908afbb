//! Parsed output of the test programs.

use std::collections::BTreeMap;

/// One case's line: `NAME key=value key=value …`.
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

    /// Returns the number of this key.
    ///
    /// # Panics
    /// Panics if there is no such number.
    pub(crate) fn number(&self, key: &str) -> i64 {
        self.text(key)
            .parse()
            .unwrap_or_else(|_| panic!("no number `{key}` in {self:?}"))
    }

    /// Returns all fields but the duration.
    pub(crate) fn result(&self) -> String {
        let mut fields = self.fields.clone();
        fields.remove("virtual_ns");
        format!("{} {fields:?}", self.case)
    }
}

/// All lines of a run, by case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines(pub(crate) BTreeMap<String, Line>);

impl Lines {
    /// Parses the lines.
    ///
    /// # Panics
    /// Panics if there is other output, or a case twice.
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
