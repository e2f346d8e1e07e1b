//! The coded data of a baseline JPEG as bits, and the Huffman codes in it.
//!
//! In: the bytes between the scan's header and the end-of-image marker. Out: segments without stuffed zeros, one per
//! restart interval ([`Coded`]); symbols and coefficients ([`Bits`], [`HuffmanTable`]).
//! Source: ITU-T T.81, annexes B.1.1.5, C and F.2.2. What isn't exactly as written there is refused, not repaired.

use std::ops::Range;

/// Codes up to this long are looked up, with the value's bits if those fit too: 4 KiB a table.
const LOOKED_UP_BITS: u32 = 10;

/// Bits that are looked up to skip coefficients, several at once: 4 KiB a table.
const SKIPPED_BITS: u32 = 11;

/// Bytes of zeros behind the data, so that a word can be read at its last byte.
const PADDING: usize = 8;

/// The coded data, unstuffed.
pub(super) struct Coded {
    bytes: Vec<u8>,
    segments: Vec<Range<usize>>,
}

impl Coded {
    /// Collects the data from `position` to the end-of-image marker, or to the end of the file. `None` if another marker
    /// ends it or restart markers are out of order.
    pub(super) fn new(encoded: &[u8], position: usize) -> Option<Self> {
        let mut rest = encoded.get(position..)?;
        let mut bytes = Vec::with_capacity(rest.len() + PADDING);
        let (mut segments, mut start) = (Vec::new(), 0);
        loop {
            let before = position_of_marker(rest).unwrap_or(rest.len());
            bytes.extend_from_slice(&rest[..before]);
            // Whether a file that ends here is complete is seen when it is decoded.
            let Some(code) = rest.get(before + 1) else { break };
            rest = &rest[before + 2..];
            match *code {
                0x00 => bytes.push(0xFF),
                0xD9 => break,
                // Restart markers count modulo eight.
                0xD0..=0xD7 if usize::from(*code - 0xD0) == segments.len() % 8 => {
                    segments.push(start..bytes.len());
                    start = bytes.len();
                }
                _ => return None,
            }
        }
        segments.push(start..bytes.len());
        bytes.extend([0; PADDING]);
        Some(Self { bytes, segments })
    }

    pub(super) fn num_segments(&self) -> usize {
        self.segments.len()
    }

    /// The bits of restart interval `index`.
    pub(super) fn segment(&self, index: usize) -> Option<Bits<'_>> {
        let segment = self.segments.get(index)?.clone();
        Some(Bits { data: &self.bytes[segment.start..], num_bytes: segment.len(), position: 0, buffer: 0, count: 0 })
    }
}

/// Where the next 0xFF is.
fn position_of_marker(bytes: &[u8]) -> Option<usize> {
    // Whole chunks at a time become vector instructions; a search byte by byte doesn't.
    const CHUNK: usize = 32;
    let has_marker = |chunk: &[u8; CHUNK]| chunk.iter().fold(false, |found, &byte| found | (byte == 0xFF));
    let (chunks, _) = bytes.as_chunks::<CHUNK>();
    let start = chunks.iter().position(has_marker).unwrap_or(chunks.len()) * CHUNK;
    bytes[start..].iter().position(|&byte| byte == 0xFF).map(|offset| start + offset)
}

/// Reads one segment, the first bit highest. Behind its end come other bits, which [`ended`](Self::ended) tells.
pub(super) struct Bits<'a> {
    data: &'a [u8],
    num_bytes: usize,
    position: usize,
    /// The next `count` bits, left-aligned.
    buffer: u64,
    count: u32,
}

impl Bits<'_> {
    /// Makes at least 32 bits available, enough for a code and its value.
    #[inline(always)]
    fn refill(&mut self) {
        if self.count < 32 {
            let next = self.data.get(self.position..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; 8]);
            self.buffer |= u64::from_be_bytes(next) >> self.count;
            self.position += (63 - self.count as usize) / 8;
            self.count |= 56;
        }
    }

    #[inline(always)]
    fn peek(&self, num_bits: u32) -> usize {
        (self.buffer >> (64 - num_bits)) as usize
    }

    #[inline(always)]
    fn skip(&mut self, num_bits: u32) {
        self.buffer <<= num_bits;
        self.count -= num_bits;
    }

    /// The value of a coefficient of `num_bits`, 1 to 15: T.81, figure F.12.
    #[inline(always)]
    fn value(&mut self, num_bits: u32) -> i32 {
        let bits = self.peek(num_bits) as i32;
        self.skip(num_bits);
        extended(bits, num_bits)
    }

    fn num_read(&self) -> usize {
        self.position * 8 - self.count as usize
    }

    /// Whether more was read than there is.
    pub(super) fn is_exceeded(&self) -> bool {
        self.num_read() > self.num_bytes * 8
    }

    /// Whether everything was read but the padding of the last byte.
    pub(super) fn ended(&self) -> bool {
        !self.is_exceeded() && self.num_bytes * 8 - self.num_read() < 8
    }
}

#[inline(always)]
fn extended(bits: i32, num_bits: u32) -> i32 {
    if bits < 1 << (num_bits - 1) { bits - (1 << num_bits) + 1 } else { bits }
}

/// One Huffman code, for DC or AC coefficients.
#[derive(Clone)]
pub(super) struct HuffmanTable {
    /// For the next [`LOOKED_UP_BITS`] bits: the bits to skip, the symbol or run, and the coefficient if all its bits
    /// are there, else 0. No bits to skip: the code is longer.
    looked_up: Vec<Entry>,
    /// For the next [`SKIPPED_BITS`] bits, which coefficients begin in them. Empty unless asked for.
    skipped: Vec<Skipped>,
    symbols: Vec<u8>,
    /// For each length, the first 16 bits that are beyond its codes.
    limits: [u32; 17],
    /// For each length, what to add to a code to find its symbol.
    offsets: [i32; 17],
}

#[derive(Clone, Copy, Default)]
struct Entry {
    num_bits: u8,
    symbol: u8,
    value: i16,
}

/// Some coefficients that follow each other. No bits: nothing is known of the first.
#[derive(Clone, Copy, Default)]
struct Skipped {
    num_bits: u8,
    /// Places that they take, and whether the end of the block follows.
    num_places: u8,
    is_end: bool,
}

impl Entry {
    /// The coefficient that this is the beginning of.
    fn skipped(self) -> Skipped {
        let Self { num_bits, symbol, value } = self;
        match (symbol >> 4, symbol & 15) {
            _ if value != 0 => Skipped { num_bits, num_places: symbol + 1, is_end: false },
            (0, 0) => Skipped { num_bits, num_places: 0, is_end: num_bits > 0 },
            (15, 0) => Skipped { num_bits, num_places: 16, is_end: false },
            // A run without a coefficient is an error.
            (_, 0) => Skipped::default(),
            (run, size) => Skipped { num_bits: num_bits + size, num_places: run + 1, is_end: false },
        }
    }
}

impl HuffmanTable {
    /// `counts[i]` codes of `i + 1` bits. `None` if there are no such codes.
    pub(super) fn new(counts: &[u8; 16], symbols: &[u8]) -> Option<Self> {
        let mut table = Self {
            looked_up: vec![Entry::default(); 1 << LOOKED_UP_BITS],
            skipped: Vec::new(),
            symbols: symbols.to_vec(),
            limits: [0; 17],
            offsets: [0; 17],
        };
        let (mut code, mut index) = (0u32, 0usize);
        for num_bits in 1..=16u32 {
            table.offsets[num_bits as usize] = index as i32 - code as i32;
            for _ in 0..counts[num_bits as usize - 1] {
                table.look_up(code, num_bits, *symbols.get(index)?);
                (code, index) = (code + 1, index + 1);
            }
            if code > 1 << num_bits {
                return None;
            }
            table.limits[num_bits as usize] = code << (16 - num_bits);
            code <<= 1;
        }
        (index == symbols.len()).then_some(table)
    }

    /// Enters one code for all bits that can follow it.
    fn look_up(&mut self, code: u32, num_bits: u32, symbol: u8) {
        if num_bits > LOOKED_UP_BITS || code >= 1 << num_bits {
            return;
        }
        let free = LOOKED_UP_BITS - num_bits;
        let value_bits = u32::from(symbol & 15);
        for following in 0..1u32 << free {
            let mut entry = Entry { num_bits: num_bits as u8, symbol, value: 0 };
            if value_bits > 0 && value_bits <= free {
                let value = extended((following >> (free - value_bits)) as i32, value_bits);
                entry = Entry { num_bits: (num_bits + value_bits) as u8, symbol: symbol >> 4, value: value as i16 };
            }
            self.looked_up[(code << free | following) as usize] = entry;
        }
    }

    /// Prepares to skip coefficients fast.
    pub(super) fn prepare_to_skip(&mut self) {
        self.skipped = (0..1 << SKIPPED_BITS).map(|bits| self.all_skipped(bits)).collect();
    }

    /// The coefficients whose codes lie within `bits`.
    fn all_skipped(&self, bits: u32) -> Skipped {
        let mut all = Skipped::default();
        while !all.is_end && u32::from(all.num_bits) < SKIPPED_BITS {
            let next = (bits << all.num_bits) & ((1 << SKIPPED_BITS) - 1);
            let entry = self.looked_up[(next >> (SKIPPED_BITS - LOOKED_UP_BITS)) as usize];
            let skipped = entry.skipped();
            if skipped.num_bits == 0 || u32::from(all.num_bits + entry.num_bits) > SKIPPED_BITS {
                break;
            }
            all.num_bits += skipped.num_bits;
            all.num_places += skipped.num_places;
            all.is_end = skipped.is_end;
        }
        all
    }

    /// The symbol of a code that isn't looked up; 0 bits long if there is none.
    #[cold]
    fn long_symbol(&self, bits: &Bits) -> Entry {
        let next = bits.peek(16) as u32;
        let num_bits = (LOOKED_UP_BITS as usize + 1..17).find(|&num_bits| next < self.limits[num_bits]);
        let symbol = num_bits.and_then(|num_bits| {
            let index = (next >> (16 - num_bits)) as i32 + self.offsets[num_bits];
            Some(Entry { num_bits: num_bits as u8, symbol: *self.symbols.get(index as usize)?, value: 0 })
        });
        symbol.unwrap_or_default()
    }

    /// The difference of a DC coefficient to the one before.
    #[inline(always)]
    pub(super) fn difference(&self, bits: &mut Bits) -> Option<i32> {
        bits.refill();
        let mut entry = self.looked_up[bits.peek(LOOKED_UP_BITS)];
        if entry.num_bits == 0 {
            entry = self.long_symbol(bits);
        }
        bits.skip(u32::from(entry.num_bits));
        match (entry.value, entry.symbol) {
            (0, 0) if entry.num_bits > 0 => Some(0),
            (0, size @ 1..=15) => Some(bits.value(u32::from(size))),
            // The run of an AC coefficient has no meaning here.
            (value, 0) if value != 0 => Some(i32::from(value)),
            _ => None,
        }
    }

    /// Reads the AC coefficients of a block and gives those up to place `last` in zigzag order to `keep`, with their
    /// place, and perhaps one more.
    #[inline(always)]
    pub(super) fn coefficients(&self, bits: &mut Bits, last: usize, mut keep: impl FnMut(usize, i32)) -> Option<()> {
        let mut place = 1;
        while place < 64 {
            bits.refill();
            if place > last && !self.skipped.is_empty() {
                let skipped = self.skipped[bits.peek(SKIPPED_BITS)];
                // At the end of a block bits may belong to the next.
                if skipped.num_bits > 0 && place + usize::from(skipped.num_places) < 64 {
                    bits.skip(u32::from(skipped.num_bits));
                    place += usize::from(skipped.num_places);
                    if skipped.is_end {
                        return Some(());
                    }
                    continue;
                }
            }
            let entry = self.looked_up[bits.peek(LOOKED_UP_BITS)];
            if entry.value != 0 {
                bits.skip(u32::from(entry.num_bits));
                place += usize::from(entry.symbol);
                if place > 63 {
                    return None;
                }
                keep(place, i32::from(entry.value));
                place += 1;
                continue;
            }
            let entry = if entry.num_bits == 0 { self.long_symbol(bits) } else { entry };
            if entry.num_bits == 0 {
                return None;
            }
            bits.skip(u32::from(entry.num_bits));
            match (usize::from(entry.symbol >> 4), u32::from(entry.symbol & 15)) {
                (0, 0) => return Some(()),
                (15, 0) => place += 16,
                (_, 0) => return None,
                (run, size) => {
                    place += run;
                    if place > 63 {
                        return None;
                    }
                    keep(place, bits.value(size));
                    place += 1;
                }
            }
        }
        // A run of sixteen zeros may not lead beyond the block.
        (place == 64).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes 0, 10, 110 for the symbols of no value, 3 bits, and 2 bits after a run of one.
    fn table() -> HuffmanTable {
        let mut counts = [0; 16];
        counts[..3].copy_from_slice(&[1, 1, 1]);
        HuffmanTable::new(&counts, &[0x00, 0x03, 0x12]).expect("a code")
    }

    fn coded(bytes: &[u8]) -> Coded {
        Coded::new(&[bytes, &[0xFF, 0xD9]].concat(), 0).expect("coded data")
    }

    #[test]
    fn coefficients_are_read_with_their_runs_to_the_end_of_the_block() {
        // 10 101 | 110 01 | 0, padded with ones.
        let coded = coded(&[0b1010_1110, 0b0101_1111]);
        let mut bits = coded.segment(0).expect("a segment");
        let mut found = Vec::new();
        table().coefficients(&mut bits, 63, |place, value| found.push((place, value))).expect("a block");
        assert_eq!(found, [(1, 5), (3, -2)]);
        assert!(bits.ended());
    }

    #[test]
    fn skipping_leads_to_where_reading_does() {
        let mut skipping = table();
        skipping.prepare_to_skip();
        // Of 10 and three bits, 110 and two, and 0, whatever comes behind.
        let blocks = [0b1010_1110_0101_1110u16, 0b1100_1110_0010_0000, 0b0111_1111_0111_1111, 0b1011_1101_0101_0010];
        for bits in blocks {
            let coded = coded(&[bits.to_be_bytes().as_slice(), &[0; 60]].concat());
            let read = |table: &HuffmanTable, last: usize| {
                let mut bits = coded.segment(0).expect("a segment");
                let mut kept = Vec::new();
                let result = table.coefficients(&mut bits, last, |place, value| kept.push((place, value)));
                (result, bits.num_read(), kept)
            };
            let (result, num_read, kept) = read(&table(), 63);
            for last in [0, 1, 2, 5, 63] {
                let (skipped, num_skipped, partly) = read(&skipping, last);
                assert_eq!((skipped, num_skipped), (result, num_read), "{bits:b} behind {last}");
                let wanted = kept.iter().take_while(|(place, _)| *place <= last).count();
                assert_eq!(partly[..wanted], kept[..wanted], "{bits:b} behind {last}");
            }
        }
    }

    #[test]
    fn stuffed_zeros_vanish_and_restart_markers_split() {
        let coded = coded(&[1, 0xFF, 0, 2, 0xFF, 0xD0, 3]);
        assert_eq!(coded.num_segments(), 2);
        assert_eq!(coded.bytes[..4], [1, 0xFF, 2, 3]);
        assert!(Coded::new(&[1, 0xFF, 0xD1, 2, 0xFF, 0xD9], 0).is_none(), "the first marker is number 0");
    }

    #[test]
    fn reading_beyond_the_end_is_noticed() {
        // 10 111 | 10 0 and two bits that aren't there.
        let coded = coded(&[0b1011_1100]);
        let mut bits = coded.segment(0).expect("a segment");
        assert_eq!(table().difference(&mut bits), Some(7));
        assert!(bits.ended());
        assert_eq!(table().difference(&mut bits), Some(-7));
        assert!(bits.is_exceeded());
    }

    #[test]
    fn impossible_codes_are_refused() {
        let mut counts = [0; 16];
        counts[0] = 3;
        assert!(HuffmanTable::new(&counts, &[1, 2, 3]).is_none(), "one bit has two codes");
        counts[0] = 1;
        assert!(HuffmanTable::new(&counts, &[]).is_none(), "fewer symbols than codes");
    }

    #[test]
    fn codes_longer_than_the_table_are_found() {
        let mut counts = [0; 16];
        (counts[0], counts[14]) = (1, 2);
        let table = HuffmanTable::new(&counts, &[0x00, 0x01, 0x02]).expect("a code");
        // 1000 0000 0000 001 is the second code of 15 bits; its value is 10.
        let coded = coded(&[0x80, 0b0000_0011, 0b0000_0000]);
        let mut bits = coded.segment(0).expect("a segment");
        assert_eq!(table.difference(&mut bits), Some(2));
    }
}
