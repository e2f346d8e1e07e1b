//! Damaged pictures of every format: no panic, no hang, no memory beyond the limit, and one verdict whatever is wanted.
//!
//! Seeds are small files of every format and, where `KILN_CORPUS_DIR` is set, the small files of the corpus. A run takes
//! `KILN_FUZZ_ROUNDS` damaged files, 1,000 unless set, in a process of its own so that its memory is what they took.

use std::process::Command;
use std::time::{Duration, Instant};

use super::*;
use crate::augment::Draws;

/// Pixels that a file may declare here: many damaged ones get as large as they may.
const OPTIONS: DecodeOptions = DecodeOptions { max_pixels: 1 << 18, ..LIMITS };

/// Growth of the process' address space by one file, in KiB: what `memory_limits` allows a decoder, four times.
const MOST_GROWTH_KIB: u64 = 72 << 10;

const LONGEST: Duration = Duration::from_secs(1);

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = every_format().into_iter().map(|(_, encoded)| encoded).collect();
    seeds.push(include_bytes!("../../../tests/fixtures/progressive.jpg").to_vec());
    seeds.push(include_bytes!("../../../tests/fixtures/restart.jpg").to_vec());
    seeds.push(include_bytes!("../../../tests/fixtures/cmyk.jpg").to_vec());
    let Some(folder) = corpus::folder() else { return seeds };
    let files = corpus::rows(&folder).into_iter().filter_map(|row| std::fs::read(folder.join(&row["file"])).ok());
    seeds.extend(files.filter(|encoded| (16..20_000).contains(&encoded.len())));
    seeds
}

/// Changes a few bytes, cuts, repeats a part or puts one of another file in.
fn damage(encoded: &mut Vec<u8>, other: &[u8], draws: &mut Draws) {
    let mut below = |bound: usize| draws.next_u32() as usize % bound.max(1);
    for _ in 0..1 + below(4) {
        let at = below(encoded.len());
        let length = 1 + below(24);
        match below(8) {
            0 => encoded.truncate(1 + at),
            1 => {
                let part: Vec<u8> = encoded[at..].iter().take(length).copied().collect();
                encoded.splice(at..at, part);
            }
            2 => {
                let from = below(other.len());
                let part: Vec<u8> = other[from..].iter().take(length).copied().collect();
                encoded.splice(at..(at + length).min(encoded.len()), part);
            }
            3 => encoded[at] = [0, 1, 0x7F, 0x80, 0xFF][below(5)],
            // Headers decide most.
            4 => {
                let at = below(encoded.len().min(64));
                encoded[at] = below(256) as u8;
            }
            5 => encoded[at] ^= 1 << below(8),
            _ => encoded[at] = below(256) as u8,
        }
    }
}

/// What is wrong with what a damaged file does, if anything.
fn complaint(encoded: &[u8], draws: &mut Draws) -> Option<String> {
    let on_truncated = if draws.next_u32().is_multiple_of(2) { OnTruncated::Refuse } else { OnTruncated::Accept };
    let options = DecodeOptions { on_truncated, ..OPTIONS };
    let start = Instant::now();
    let whole = rgb_from_bytes(encoded, &options);
    let (x, y, scale) = (draws.next_u32(), draws.next_u32(), 1 << (draws.next_u32() % 4));
    let wanted = |width: u32, height: u32| {
        let (left, top) = (x % width, y % height);
        Window { columns: left..left + (width - left).div_ceil(2), rows: top..top + (height - top).div_ceil(2), scale }
    };
    let part = view_from_bytes(encoded, &options, wanted);
    let elapsed = start.elapsed();
    let [whole, part] = [whole.map(|_| ()), part.map(|_| ())].map(|verdict| verdict.map_err(|error| error.to_string()));
    let panicked = whole.as_ref().is_err_and(|reason| reason.contains("panicked"));
    match () {
        () if panicked => Some(format!("{whole:?}")),
        () if whole != part => Some(format!("{whole:?} whole, {part:?} in part")),
        // Both together, so that a noisy machine has some room.
        () if elapsed > 2 * LONGEST => Some(format!("took {elapsed:?}")),
        () => None,
    }
}

/// Peak of the address space, as Linux counts it; 0 elsewhere.
fn peak_address_space_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmPeak:")?.trim().split(' ').next()?.parse().ok());
    peak.unwrap_or(0)
}

#[test]
fn damaged_pictures_neither_panic_nor_hang_nor_take_memory_beyond_the_limit() {
    const CHILD: &str = "KILN_MUTATED_CHILD";
    if std::env::var_os(CHILD).is_none() {
        let name = "decode::tests::mutated::damaged_pictures_neither_panic_nor_hang_nor_take_memory_beyond_the_limit";
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        let output = child.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().expect("a child");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        return eprintln!("{said}");
    }
    let rounds = std::env::var("KILN_FUZZ_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1000u64);
    let seeds = seeds();
    // A decoder's panics are caught and reported by us.
    std::panic::set_hook(Box::new(|_| ()));
    let (mut complaints, mut longest) = (Vec::new(), Duration::ZERO);
    let mut peak = peak_address_space_kib();
    for round in 0..rounds {
        let mut draws = Draws::new(11, 0, round, 0);
        let index = draws.next_u32() as usize;
        let (mut encoded, other) =
            (seeds[index % seeds.len()].clone(), &seeds[draws.next_u32() as usize % seeds.len()]);
        damage(&mut encoded, other, &mut draws);
        let start = Instant::now();
        let mut complaint = complaint(&encoded, &mut draws);
        longest = longest.max(start.elapsed());
        let growth = peak_address_space_kib().saturating_sub(peak);
        peak += growth;
        if growth > MOST_GROWTH_KIB {
            complaint = Some(format!("{:?} took {growth} KiB", sniff::format(&encoded).ok()));
        }
        complaints.extend(complaint.map(|text| format!("round {round}: {text}")));
    }
    let _ = std::panic::take_hook();
    eprintln!("{rounds} files of {} seeds, each decoded twice; the slowest took {longest:?}", seeds.len());
    assert!(
        complaints.is_empty(),
        "{} files:\n{}",
        complaints.len(),
        complaints[..complaints.len().min(20)].join("\n")
    );
}
