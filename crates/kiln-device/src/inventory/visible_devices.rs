//! The grammar of `CUDA_VISIBLE_DEVICES`, by which a user hides cards from CUDA.
//!
//! In: the variable's value and the identifiers of all cards, in the CUDA driver's order. Out: the cards it
//! leaves visible, in its own order, and why it leaves no more. Rules: a list separated by commas, of numbers or
//! of identifiers (`GPU-` and the first digits of one). The first entry that means no card ends the list; a card
//! named twice empties it. An empty value hides all. Numbers are read as C's `strtol` does, so that `1gpu` is 1.
//! A part of a card (`MIG-...`) may stand alone only: CUDA uses one of them a process, whatever follows it.
//! Source: CUDA C++ programming guide, "CUDA environment variables"; the odd cases as PyTorch validated them
//! against driver 525 (pytorch/pytorch#92315); NVIDIA's MIG user guide, "CUDA visible devices".

/// What a value does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Visible {
    /// Positions of the visible cards, in the variable's order.
    pub(crate) indices: Vec<usize>,
    /// The part of a card that is visible, as the value names it. Its card is in `indices` where the name says it, which
    /// it did before driver 470.
    pub(crate) part: Option<String>,
    /// Why the list ends before the value does.
    pub(crate) ended_by: Option<String>,
}

/// Reads `value` for cards with these identifiers (`GPU-8932f937-d72c-...`).
pub(crate) fn visible_devices(value: &str, uuids: &[String]) -> Visible {
    let value = value.trim_start();
    if value.starts_with("MIG-") {
        return part_of_card(value, uuids);
    }
    let by_identifier = value.starts_with("GPU-");
    let mut indices: Vec<usize> = Vec::new();
    for entry in value.split(',').map(str::trim_start) {
        let found = if by_identifier { by_uuid(entry, uuids) } else { by_number(entry, uuids.len()) };
        match found {
            Err(reason) => return Visible { indices, part: None, ended_by: Some(reason) },
            Ok(index) if indices.contains(&index) => {
                let ended_by = Some(format!("\"{entry}\" names a card twice"));
                return Visible { indices: Vec::new(), part: None, ended_by };
            }
            Ok(index) => indices.push(index),
        }
    }
    Visible { indices, part: None, ended_by: None }
}

/// `MIG-GPU-<card>/<instance>/<instance>`, or `MIG-<identifier>`, which only the driver can resolve.
fn part_of_card(value: &str, uuids: &[String]) -> Visible {
    let (entry, more) = value.split_once(',').map_or((value, false), |(entry, _)| (entry, true));
    let entry = entry.trim_end();
    let card = entry.strip_prefix("MIG-").and_then(|rest| rest.split_once('/')).map(|(card, _)| by_uuid(card, uuids));
    let part = Some(entry.to_owned());
    match card {
        Some(Err(reason)) => Visible { indices: Vec::new(), part: None, ended_by: Some(reason) },
        found => Visible {
            indices: found.and_then(Result::ok).into_iter().collect(),
            part,
            ended_by: more.then(|| "CUDA uses only one part of a card at a time".to_owned()),
        },
    }
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
    fn a_part_of_a_card_stands_alone_and_leads_to_its_card_where_it_names_one() {
        let uuids = ["GPU-11111111-0000".to_owned(), "GPU-22222222-0000".to_owned()];
        for (value, indices, part, ended_by) in [
            ("MIG-GPU-22222222-0000/3/0", &[1][..], Some("MIG-GPU-22222222-0000/3/0"), None),
            ("MIG-c7384736-a75d", &[], Some("MIG-c7384736-a75d"), None),
            (" MIG-c7384736-a75d,0", &[], Some("MIG-c7384736-a75d"), Some("only one part")),
            ("MIG-GPU-33333333/1/0", &[], None, Some("begins with \"GPU-33333333\"")),
            ("0,MIG-c7384736-a75d", &[0], None, Some("neither the number")),
        ] {
            let visible = visible_devices(value, &uuids);
            assert_eq!((&visible.indices[..], visible.part.as_deref()), (indices, part), "{value:?}");
            let reason = visible.ended_by.unwrap_or_default();
            assert!(reason.contains(ended_by.unwrap_or_default()), "{value:?}: {reason}");
            assert_eq!(reason.is_empty(), ended_by.is_none(), "{value:?}: {reason}");
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
