//! Damaged weights files: an error or a file that still reads, never a panic, never much memory.
//!
//! Every file is damaged by flipping bits, cutting it short and writing absurd sizes, then opened, and what opens is
//! read. An allocator that counts watches each attempt. `KILN_FUZZ_ROUNDS` sets the number of damaged files (default
//! 2,000; 100,000 take a few minutes). Those of `KILN_GOLDEN_DIR` join the repository's own
//! files if it is set.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use kiln_model::{Arch, Metadata, ResNetConfig, WeightsFile, safetensors_from_state};

/// Bytes that opening a small file may take beyond twice its size: tables, and the texts of errors.
const SMALL: usize = 1 << 20;

/// The system's allocator, counting what is live and the largest request.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static LARGEST: AtomicUsize = AtomicUsize::new(0);

#[expect(unsafe_code, reason = "an allocator is an unsafe trait")]
// SAFETY: every call is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the pointer came from `alloc` above with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A counter-based generator: round and index decide the number.
fn random(round: u64, index: u64) -> u64 {
    let mut x = round.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ index.wrapping_mul(0xD1B5_4A32_D192_ED03);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// The files to damage: a safetensors file made here, the repository's checkpoints, and the golden ones.
fn files() -> Vec<(String, Vec<u8>)> {
    let config = ResNetConfig { width: 2, num_classes: 2, ..ResNetConfig::new(Arch::ResNet18) };
    let state = config.init(1, &kiln_device::cpu()).state();
    let safetensors = safetensors_from_state(&state, &Metadata::new()).expect("plain types");
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/checkpoints");
    let mut files = vec![("made.safetensors".to_string(), safetensors)];
    let golden = std::env::var_os("KILN_GOLDEN_DIR").map(|folder| Path::new(&folder).join("checkpoints"));
    for folder in std::iter::once(fixtures).chain(golden) {
        let mut entries: Vec<_> = std::fs::read_dir(folder).expect("a folder of checkpoints").flatten().collect();
        entries.sort_by_key(|entry| entry.file_name());
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            let known = files.iter().any(|(known, _)| *known == name);
            if !known && !name.ends_with(".json") {
                files.push((name, std::fs::read(entry.path()).expect("a checkpoint")));
            }
        }
    }
    files
}

/// One damaged copy. Most damage goes where sizes and names stand: the first and last few kilobytes.
fn damaged(whole: &[u8], round: u64) -> Vec<u8> {
    const EDGE: usize = 4096;
    let mut bytes = whole.to_vec();
    let place = |index: u64| {
        let number = random(round, index) as usize;
        match number % 8 {
            0 => (number >> 3) % whole.len(),
            1..5 => (number >> 3) % whole.len().min(EDGE),
            _ => whole.len() - 1 - (number >> 3) % whole.len().min(EDGE),
        }
    };
    match round % 4 {
        0 => bytes.truncate(random(round, 0) as usize % whole.len()),
        1 => {
            let at = place(1);
            let len = 1 << (random(round, 2) % 4);
            let end = (at + len).min(bytes.len());
            bytes[at..end].fill(if random(round, 3).is_multiple_of(2) { 0xFF } else { 0x7F });
        }
        _ => {
            for flip in 0..1 + random(round, 4) % 4 {
                bytes[place(10 + flip)] ^= 1 << (random(round, 20 + flip) % 8);
            }
        }
    }
    bytes
}

/// Opens a file and reads what opens; whether that went well.
fn opens(bytes: Vec<u8>) -> bool {
    let Ok(file) = WeightsFile::parse(bytes, "damaged") else { return false };
    file.choose(None).and_then(|chosen| file.state(&chosen)).is_ok()
}

#[test]
fn damaged_files_are_errors_without_a_panic_or_much_memory() {
    let rounds: u64 = std::env::var("KILN_FUZZ_ROUNDS").map_or(2000, |n| n.parse().expect("a number of rounds"));
    let files = files();
    let (mut refused, mut worst) = (0u64, (0f64, String::new()));
    for round in 0..rounds {
        let (name, whole) = &files[(round % files.len() as u64) as usize];
        let bytes = damaged(whole, round / files.len() as u64);
        let size = bytes.len();
        let before = LIVE.load(Ordering::Relaxed) - size;
        PEAK.store(before, Ordering::Relaxed);
        LARGEST.store(0, Ordering::Relaxed);
        refused += u64::from(!opens(bytes));
        let (peak, largest) = (PEAK.load(Ordering::Relaxed) - before, LARGEST.load(Ordering::Relaxed));
        assert!(largest <= 2 * size + SMALL, "{name}, round {round}: one allocation of {largest} for {size} bytes");
        // The file itself, its numbers (at most twice the file) and the tables.
        assert!(peak <= 3 * size + SMALL, "{name}, round {round}: {peak} bytes in all for {size}");
        let share = largest as f64 / size.max(SMALL) as f64;
        if share > worst.0 {
            worst = (share, format!("{name}: {largest} bytes at once for {size}"));
        }
    }
    eprintln!("{rounds} damaged files of {}: {refused} refused, largest: {}", files.len(), worst.1);
    // Flipped bits among the numbers of a file without checksums still read; three in four of the rest don't.
    assert!(refused * 2 > rounds, "only {refused} of {rounds} refused");
}
