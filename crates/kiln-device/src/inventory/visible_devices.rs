//! The grammar of `CUDA_VISIBLE_DEVICES`, by which a user hides cards from CUDA.
//!
//! In: the variable's value and the identifiers of all cards, in the CUDA driver's order. Out: the cards it
//! leaves visible, in its own order, and why it leaves no more. Rules: a list separated by commas, of numbers or
//! of identifiers (`GPU-` and the first digits of one). The first entry that means no card ends the list; a card
//! named twice empties it. An empty value hides all. Numbers are read as C's `strtol` does, so that `1gpu` is 1.
//! Source: CUDA C++ programming guide, "CUDA environment variables"; the odd cases as PyTorch validated them
//! against driver 525 (pytorch/pytorch#92315).

/// What a value does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Visible {
    /// Positions of the visible cards, in the variable's order.
    pub(crate) indices: Vec<usize>,
    /// Why the list ends before the value does.
    pub(crate) ended_by: Option<String>,
}

/// Reads `value` for cards with these identifiers (`GPU-8932f937-d72c-...`).
pub(crate) fn visible_devices(value: &str, uuids: &[String]) -> Visible {
    let by_identifier = value.trim_start().starts_with("GPU-");
    let mut indices: Vec<usize> = Vec::new();
    for entry in value.split(',').map(str::trim_start) {
        let found = if by_identifier { by_uuid(entry, uuids) } else { by_number(entry, uuids.len()) };
        match found {
            Err(reason) => return Visible { indices, ended_by: Some(reason) },
            Ok(index) if indices.contains(&index) => {
                return Visible { indices: Vec::new(), ended_by: Some(format!("\"{entry}\" names a card twice")) };
            }
            Ok(index) => indices.push(index),
        }
    }
    Visible { indices, ended_by: None }
}

fn by_number(entry: &str, num_cards: usize) -> Result<usize, String> {
    let end = entry.bytes().enumerate().position(|(at, byte)| !(byte.is_ascii_digit() || at == 0 && byte == b'+'));
    let number: Option<usize> = entry[..end.unwrap_or(entry.len())].parse().ok();
    match number {
        None if entry.is_empty() => Err("the value is empty".to_owned()),
        None => Err(format!("\"{entry}\" is neither the number of a card nor its identifier")),
        Some(index) if index >= num_cards => Err(format!("there is no card {index}")),
        Some(index) => Ok(index),
    }
}

fn by_uuid(entry: &str, uuids: &[String]) -> Result<usize, String> {
    let digits = |text: &str| text.strip_prefix("GPU-").map(|rest| rest.replace('-', "").to_ascii_lowercase());
    let wanted = digits(entry).filter(|wanted| !wanted.is_empty());
    let wanted = wanted.ok_or_else(|| format!("\"{entry}\" is no identifier"))?;
    let mut matching =
        (0..uuids.len()).filter(|&index| digits(&uuids[index]).is_some_and(|id| id.starts_with(&wanted)));
    match (matching.next(), matching.next()) {
        (Some(index), None) => Ok(index),
        (Some(_), Some(_)) => Err(format!("\"{entry}\" is the beginning of more than one card's identifier")),
        (None, _) => Err(format!("no card's identifier begins with \"{entry}\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_mean_what_the_driver_makes_of_them() {
        let uuids = ["GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "GPU-8932aa00-d72c-4106-c12f-20bd9faed9f6"];
        let uuids = uuids.map(str::to_owned);
        for (value, expected) in [
            ("", &[][..]),
            ("-1", &[]),
            ("0", &[0]),
            ("1", &[1]),
            ("1,0", &[1, 0]),
            ("0,2,1", &[0]),
            ("0,-1,1", &[0]),
            ("0,0", &[]),
            ("1gpu,0", &[1, 0]),
            ("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", &[0]),
            ("GPU-8932f", &[0]),
            ("GPU-8932", &[]),
            ("GPU-8932aa00,GPU-8932f937", &[1, 0]),
            ("GPU-ffff", &[]),
            ("abc", &[]),
            (" 1", &[1]),
            ("GPU-8932f,0", &[0]),
            ("0,", &[0]),
        ] {
            assert_eq!(visible_devices(value, &uuids).indices, expected, "{value:?}");
        }
    }

    #[test]
    fn the_entry_that_ends_the_list_is_named() {
        let uuids = ["GPU-11111111-0000".to_owned()];
        for (value, part) in
            [("", "empty"), ("0,7", "no card 7"), ("0,0", "twice"), ("x", "\"x\""), ("GPU-2", "begins with")]
        {
            let reason = visible_devices(value, &uuids).ended_by.expect("a reason");
            assert!(reason.contains(part), "{value:?}: {reason}");
        }
        assert_eq!(visible_devices("0", &uuids).ended_by, None);
    }
}
