//! The nearest valid name for a mistyped one, in the messages of serde.
//!
//! In: a message such as ``unknown field `sacle`, expected `scale` or `ratio` ``. Out: the same with a suggestion.
//! Not done here: names outside of recipes; a device or an architecture has its own error.

/// Below this similarity of Jaro and Winkler, 0–1, two names have nothing to do with each other.
const MIN_SIMILARITY: f64 = 0.7;

/// Appends the valid name nearest to the unknown one of serde's `message`, if there is one and none is named yet.
///
/// ```
/// let message = kiln_data::with_nearest_name("unknown field `sacle`, expected `scale` or `ratio`");
/// assert!(message.ends_with("; did you mean `scale`?"));
/// ```
pub fn with_nearest_name(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    let unknown = names.next().filter(|_| message.starts_with("unknown") && !message.contains("did you mean"));
    let nearest = unknown.and_then(|unknown| nearest_name(unknown, names));
    nearest.map_or_else(|| message.to_owned(), |name| format!("{message}; did you mean `{name}`?"))
}

/// The most similar of `names`, if any is similar at all.
pub(crate) fn nearest_name<'a>(unknown: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let similar = names.map(|name| (strsim::jaro_winkler(unknown, name), name));
    let nearest = similar.filter(|(similarity, _)| *similarity > MIN_SIMILARITY).max_by(|a, b| a.0.total_cmp(&b.0));
    nearest.map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_valid_name_is_suggested_once() {
        let message = "unknown variant `random_crup`, expected one of `resize`, `random_crop`, `center_crop`";
        let suggested = with_nearest_name(message);
        assert_eq!(suggested, format!("{message}; did you mean `random_crop`?"));
        assert_eq!(with_nearest_name(&suggested), suggested);
    }

    #[test]
    fn nothing_is_suggested_for_something_else() {
        for message in ["unknown field `xyz`, expected `scale`", "missing field `scale`", "unknown field `scale`", ""] {
            assert_eq!(with_nearest_name(message), message);
        }
    }
}
