//! Rendering of mistakes for users: the line of text with a mark, the message and the fix.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Origin, Renderer, Snippet};

use crate::error::{Mistake, ScenarioErrors, Source};

impl ScenarioErrors {
    /// Renders all mistakes with their lines of text. `colour` adds ANSI colours.
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        let parts: Vec<String> = self
            .mistakes
            .iter()
            .map(|mistake| render(mistake, &self.sources[mistake.spot.source], &renderer))
            .collect();
        parts.join("\n\n")
    }
}

fn render(mistake: &Mistake, source: &Source, renderer: &Renderer) -> String {
    let title = Level::ERROR.primary_title(mistake.message.as_str());
    let mut group = if mistake.line == 0 {
        title.element(Origin::path(source.name.as_str()))
    } else {
        // Only this line is rendered, because a text may be long and have many mistakes.
        let span = whole_characters(&source.text, &mistake.spot.span);
        let begin = source.text[..span.start].rfind('\n').map_or(0, |at| at + 1);
        let end = source.text[span.end..].find('\n');
        let end = end.map_or(source.text.len(), |at| span.end + at);
        let span = span.start - begin..span.end - begin;
        title.element(
            Snippet::source(&source.text[begin..end])
                .line_start(mistake.line)
                .path(source.origin())
                .annotation(AnnotationKind::Primary.span(span)),
        )
    };
    if let Some(help) = &mistake.help {
        group = group.element(Level::HELP.message(help.as_str()));
    }
    renderer.render(&[group])
}

/// Limits `span` to the text, to whole characters, and to one line. If a long value were marked as
/// a whole, the message would be far from its beginning.
fn whole_characters(text: &str, span: &Range<usize>) -> Range<usize> {
    let fit = |position: usize| {
        let mut at = position.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = fit(span.start);
    let end = fit(span.end).max(start);
    let line_end = text[start..end]
        .find('\n')
        .map_or(end, |newline| start + newline);
    start..line_end
}
