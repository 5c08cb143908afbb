//! Search for the known word that is nearest to an unknown one, for "did you mean".

/// Returns the word nearest to `word`; `None` if none is near enough to be the intended one.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        // One error per three letters is permitted; a word may also be truncated.
        .filter(|(slips, candidate)| {
            *slips <= candidate.chars().count().div_ceil(3)
                || (word.len() >= 3 && candidate.starts_with(word))
        })
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, candidate)| candidate)
}

/// Returns the fix for an unknown word. It names the nearest known word or, if none is near, all of
/// them.
pub(crate) fn hint<'a>(
    word: &str,
    noun: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
) -> String {
    if let Some(near) = nearest(word, known.clone()) {
        return format!("did you mean `{near}`?");
    }
    let all: Vec<String> = known.into_iter().map(|name| format!("`{name}`")).collect();
    match all.as_slice() {
        [] => format!("there is no {noun}"),
        _ if all.len() > 12 => format!(
            "known: {} and {} more",
            all[..12].join(", "),
            all.len() - 12
        ),
        _ => format!("known: {}", all.join(", ")),
    }
}
