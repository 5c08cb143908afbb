//! Keys under which messages are published, and patterns that match keys. Both consist of parts
//! separated by `/`. In a pattern, `*` matches one part, and `**` any number of parts, including
//! none.

/// Maximum length of a key or pattern in bytes.
pub(crate) const MOST_BYTES: usize = 1024;

/// Returns true if messages can be published under this key, which has no wildcards.
pub(crate) fn is_key(key: &str) -> bool {
    is_pattern(key) && !key.contains('*')
}

/// Returns true if no part is empty, and if each wildcard is a whole part.
pub(crate) fn is_pattern(pattern: &str) -> bool {
    let is_part = |part: &str| {
        let has_star = part.contains('*');
        !part.is_empty() && (!has_star || part == "*" || part == "**")
    };
    pattern.len() <= MOST_BYTES && pattern.split('/').all(is_part)
}

/// Returns true if the pattern matches this key.
pub(crate) fn matches(pattern: &str, key: &str) -> bool {
    let parts: Vec<&str> = key.split('/').collect();
    // `reached` has the prefixes of the key that the pattern matches until now. The number of steps
    // is the product of both numbers of parts, whatever wildcards there are.
    let mut reached = vec![false; parts.len() + 1];
    reached[0] = true;
    for wanted in pattern.split('/') {
        if wanted == "**" {
            let first = reached.iter().position(|reached| *reached);
            let from = first.unwrap_or(reached.len());
            reached[from..].fill(true);
        } else {
            for end in (1..reached.len()).rev() {
                let fits = wanted == "*" || wanted == parts[end - 1];
                reached[end] = reached[end - 1] && fits;
            }
            reached[0] = false;
        }
    }
    reached[parts.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_parts() {
        for (pattern, key, holds) in [
            ("cell/move", "cell/move", true),
            ("cell/move", "cell/moves", false),
            ("cell/*", "cell/move", true),
            ("cell/*", "cell", false),
            ("cell/*", "cell/a/b", false),
            ("*/move", "cell/move", true),
            ("**", "cell/move", true),
            ("cell/**", "cell", true),
            ("cell/**", "cell/a/b/c", true),
            ("**/stop", "stop", true),
            ("**/stop", "a/b/stop", true),
            ("a/**/b/*", "a/x/b/y", true),
            ("a/**/b/*", "a/b/c/b/y", true),
            ("a/**/b/*", "a/b", false),
            ("**/**/a", "a", true),
        ] {
            assert_eq!(matches(pattern, key), holds, "{pattern} {key}");
            assert!(is_pattern(pattern) && is_key(key));
        }
        // The number of steps is at most the pattern's number of parts times the key's.
        let (many, key) = (["**"; 300].join("/") + "/b", ["a"; 300].join("/"));
        assert!(!matches(&many, &key));
        let too_long = "a".repeat(MOST_BYTES + 1);
        for bad in ["", "/a", "a/", "a//b", "a*", "***", &too_long] {
            assert!(!is_pattern(bad), "{bad}");
        }
        assert!(!is_key("cell/*"));
    }
}
