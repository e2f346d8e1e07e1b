//! Damaged shards and indices: an error or a data set that still reads, never a panic, never much memory; and a large
//! one.
//!
//! Tar files of every kind we read, and their `.idx`, are damaged by flipping bits, cutting, moving blocks and writing
//! absurd numbers, half of them with checksums made good again, since nothing else gets past the first header. Then
//! they are opened, and what opens is read. An allocator that counts watches. `KILN_FUZZ_ROUNDS` sets the number of
//! damaged files (default 2,000; 500,000 take some minutes), `KILN_INDEX_SAMPLES` the size of the large shard (default
//! 5,000; a million take 2 GB of disk).

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kiln_data::{OpenOptions, Splits, open};
use tar::{EntryType, Header};

/// Bytes that opening a small shard may take beyond twice its size: a window, tables, and the texts of errors.
const SMALL: usize = 1 << 20;

/// The system's allocator, counting what is live and the largest request.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static LARGEST: AtomicUsize = AtomicUsize::new(0);

/// Tests that count memory run one at a time.
static ALONE: Mutex<()> = Mutex::new(());

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

/// What has been allocated at most since `count` began: the peak above what was there, and the largest piece.
fn counted<T>(work: impl FnOnce() -> T) -> (T, usize, usize) {
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    LARGEST.store(0, Ordering::Relaxed);
    let done = work();
    (done, PEAK.load(Ordering::Relaxed).saturating_sub(before), LARGEST.load(Ordering::Relaxed))
}

/// A counter-based generator: round and index decide the number.
fn random(round: u64, index: u64) -> u64 {
    let mut x = round.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ index.wrapping_mul(0xD1B5_4A32_D192_ED03);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// A shard and its index.
#[derive(Clone, Default)]
struct Shard {
    tar: Vec<u8>,
    index: String,
    lines: usize,
}

impl Shard {
    fn member(&mut self, name: &str, kind: EntryType, content: &[u8]) -> (usize, usize) {
        let mut header = if self.lines.is_multiple_of(2) { Header::new_ustar() } else { Header::new_gnu() };
        header.set_path(name).expect("a short name");
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_cksum();
        self.tar.extend_from_slice(header.as_bytes());
        let offset = self.tar.len();
        self.tar.extend_from_slice(content);
        self.tar.resize(self.tar.len().next_multiple_of(512), 0);
        (offset, content.len())
    }

    /// A sample, its members preceded by what `before` writes for a name.
    fn sample(&mut self, key: &str, label: (&str, &[u8]), before: impl Fn(&mut Self, &str)) {
        let picture = ("jpg", &b"a picture of some bytes"[..]);
        for (index, (ending, content)) in [label, picture].into_iter().enumerate() {
            let name = format!("{key}.{ending}");
            before(self, &name);
            let (offset, size) = self.member(&name, EntryType::Regular, content);
            let space = if index == 0 { "" } else { " " };
            self.index += &format!("{space}{ending} {offset} {size} {name}");
        }
        self.index += "\n";
        self.lines += 1;
    }

    fn ended(mut self) -> Self {
        self.tar.resize(self.tar.len() + 1024, 0);
        self.index = format!("v1.2 {}\n{}", self.lines, self.index);
        self
    }
}

/// One shard of each kind.
fn shards() -> Vec<Shard> {
    let (mut plain, mut gnu, mut posix, mut json) = Default::default();
    for number in 0..4 {
        let key = format!("{number:08}");
        let label = (number % 2).to_string();
        let cls = ("cls", label.as_bytes());
        Shard::sample(&mut plain, &key, cls, |_, _| ());
        Shard::sample(&mut gnu, &key, cls, |shard, name| {
            shard.member("././@LongLink", EntryType::GNULongName, format!("folder/{name}\0").as_bytes());
        });
        Shard::sample(&mut posix, &key, cls, |shard, name| {
            let record = format!("path=folder/{name}\n");
            shard.member("pax", EntryType::XHeader, format!("{} {record}", record.len() + 3).as_bytes());
        });
        let text = format!("{{\"label\": {label}, \"name\": \"class {label}\"}}");
        Shard::sample(&mut json, &key, ("json", text.as_bytes()), |_, _| ());
    }
    [plain, gnu, posix, json].map(Shard::ended).to_vec()
}

/// Damages some bytes: cut, filled, flipped, copied elsewhere, or a number made absurd.
fn damage(bytes: &mut Vec<u8>, round: u64) {
    let place = |index: u64, len: usize| random(round, index) as usize % len;
    let len = bytes.len();
    match random(round, 1) % 5 {
        0 => bytes.truncate(place(2, len)),
        1 => {
            let at = place(3, len);
            let end = (at + (1 << (random(round, 4) % 5))).min(len);
            bytes[at..end].fill([0xFF, 0x7F, b'7', b'9', 0][place(5, 5)]);
        }
        2 => {
            let (from, to) = (place(6, len) / 512 * 512, place(7, len) / 512 * 512);
            let length = 512.min(len - from).min(len - to);
            bytes.copy_within(from..from + length, to);
        }
        _ => {
            for flip in 0..1 + random(round, 8) % 4 {
                let at = place(10 + flip, len);
                bytes[at] ^= 1 << (random(round, 20 + flip) % 8);
            }
        }
    }
}

/// Damages the fields that a tar reader believes: type, size and name.
fn damage_header(tar: &mut [u8], round: u64) {
    let headers: Vec<_> = (0..tar.len() / 512).map(|block| block * 512).filter(|&at| is_header(&tar[at..])).collect();
    if headers.is_empty() {
        return;
    }
    let at = headers[random(round, 30) as usize % headers.len()];
    match random(round, 31) % 3 {
        0 => tar[at + 156] = b"\x000123456789gxLKSVXA~"[random(round, 32) as usize % 20],
        1 => {
            let sizes: [&[u8; 12]; 6] = [
                b"77777777777\0",
                b"00000000000\0",
                b"00000001000\0",
                b"00000177777\0",
                b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
                b"-1         \0",
            ];
            tar[at + 124..at + 136].copy_from_slice(sizes[random(round, 33) as usize % 6]);
        }
        _ => tar[at + random(round, 34) as usize % 100] = random(round, 35) as u8,
    }
}

fn is_header(block: &[u8]) -> bool {
    block.get(257..262) == Some(b"ustar")
}

/// Gives every header the checksum of what it is now.
fn make_good(tar: &mut [u8]) {
    for block in tar.chunks_exact_mut(512).filter(|block| is_header(block)) {
        let mut header = Header::from_byte_slice(block).clone();
        header.set_cksum();
        block.copy_from_slice(header.as_bytes());
    }
}

/// Opens a folder and reads what opens; how many samples, or the error.
fn read(folder: &Path) -> Result<usize, String> {
    let Splits { train, .. } = open(folder, &OpenOptions::default()).map_err(|error| error.to_string())?;
    for index in 0..train.len() {
        assert!((train.label(index) as usize) < train.classes().len());
        assert!(!train.name(index).is_empty());
        // Bytes that are no picture are the decoder's affair.
        let _ = train.sample(index);
    }
    Ok(train.len())
}

#[test]
fn damaged_shards_and_indices_are_errors_without_a_panic_or_much_memory() {
    let _alone = ALONE.lock();
    let rounds: u64 = std::env::var("KILN_FUZZ_ROUNDS").map_or(2000, |n| n.parse().expect("a number of rounds"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str| folder.path().join(name);
    let shards = shards();
    std::fs::write(file("val-0.tar"), &shards[0].tar).expect("written");
    for (number, shard) in shards.iter().enumerate() {
        std::fs::write(file("train-0.tar"), &shard.tar).expect("written");
        assert_eq!(read(folder.path()), Ok(4), "shard {number} is whole");
    }

    let (mut refused, mut slowest, mut most) = (0u64, Duration::ZERO, 0);
    for round in 0..rounds {
        let mut shard = shards[random(round, 40) as usize % shards.len()].clone();
        let mut index = shard.index.into_bytes();
        let target = random(round, 41) % 8;
        match target {
            0 | 1 => damage(&mut shard.tar, round),
            2 | 3 => damage_header(&mut shard.tar, round),
            4 => damage(&mut index, round),
            _ => {
                damage(&mut shard.tar, round);
                damage_header(&mut shard.tar, round.wrapping_add(1 << 40));
            }
        }
        if !random(round, 42).is_multiple_of(4) {
            make_good(&mut shard.tar);
        }
        std::fs::write(file("train-0.tar"), &shard.tar).expect("written");
        match target == 4 || random(round, 43).is_multiple_of(4) {
            true => std::fs::write(file("train-0.idx"), &index).expect("written"),
            false => drop(std::fs::remove_file(file("train-0.idx"))),
        }
        let start = Instant::now();
        let (result, peak, largest) = counted(|| read(folder.path()));
        slowest = slowest.max(start.elapsed());
        most = most.max(peak);
        let size = shard.tar.len() + index.len();
        assert!(largest <= 2 * size + SMALL, "round {round}: one allocation of {largest} for {size} bytes");
        assert!(peak <= 4 * size + SMALL, "round {round}: {peak} bytes in all for {size}");
        match result {
            Err(message) => {
                refused += 1;
                assert!(
                    message.contains("train-0.tar") || message.contains("data set") || message.contains("class"),
                    "{message}"
                );
            }
            // A damaged index costs nothing: the shard has the samples.
            Ok(samples) => assert!(target != 4 || samples == 4, "round {round}: {samples} samples by a damaged index"),
        }
    }
    eprintln!("{rounds} damaged shards: {refused} refused, slowest {slowest:?}, most memory {most} bytes");
    assert!(refused * 4 > rounds, "only {refused} of {rounds} refused");
}

#[test]
fn the_index_of_a_large_shard_takes_little_memory() {
    let _alone = ALONE.lock();
    let number: usize = std::env::var("KILN_INDEX_SAMPLES").map_or(5000, |n| n.parse().expect("a number of samples"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let name = |file: &str| folder.path().join(file);
    write_large(&name("train-0.tar"), number);
    std::fs::write(name("val-0.tar"), &shards()[0].tar).expect("written");

    let start = Instant::now();
    let (opened, peak, _) = counted(|| open(folder.path(), &OpenOptions::default()).expect("a data set"));
    let took = start.elapsed();
    assert_eq!(opened.train.len(), number);
    let start = Instant::now();
    for index in (0..64).map(|index| index * 7919 % number) {
        let sample = opened.train.sample(index).expect("a sample");
        assert_eq!((sample.content.bytes(), sample.label), (index.to_string().as_bytes(), index as u32 % 2));
    }
    let resident = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = resident.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    eprintln!("{number} samples opened in {took:?}, first 64 read in {:?}, {peak} bytes; {resident}", start.elapsed());
    assert!(peak <= 300 * number + SMALL, "{peak} bytes for {number} samples");
}

/// Writes samples whose pictures are their numbers as text.
fn write_large(path: &Path, number: usize) {
    use std::io::Write;
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).expect("created"));
    for index in 0..number {
        let mut shard = Shard::default();
        shard.member(&format!("{index:08}.cls"), EntryType::Regular, (index % 2).to_string().as_bytes());
        shard.member(&format!("{index:08}.jpg"), EntryType::Regular, index.to_string().as_bytes());
        file.write_all(&shard.tar).expect("written");
    }
    file.write_all(&[0; 1024]).expect("written");
    file.flush().expect("written");
}
