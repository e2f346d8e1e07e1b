//! The headers of the JPEGs that we decode ourselves: baseline, one scan, 8 bits, grey or YCbCr.
//!
//! In: the bytes of a file. Out: [`Frame`], or `None` for everything else, and for every header that isn't exactly as
//! ITU-T T.81, annex B, has it: those go to the general decoder, whose verdict counts.
//! That is what cameras and data sets hold: ImageNet's few others are CMYK, or progressive.

use image::metadata::Orientation;

use super::super::view::Turn;
use super::bits::HuffmanTable;
use super::idct::ZIGZAG;

/// What is known before the coded data begins.
pub(super) struct Frame {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) orientation: Orientation,
    /// One, grey, or three: luma, blue and red chroma.
    pub(super) components: Vec<Component>,
    /// Blocks of luma in an MCU, across and down: 1 or 2.
    pub(super) sampling: [usize; 2],
    /// MCUs between two restart markers; 0 without.
    pub(super) restart_interval: usize,
    /// Where the coded data begins.
    pub(super) data: usize,
}

/// One component of the picture.
pub(super) struct Component {
    /// Blocks in an MCU, across and down.
    pub(super) blocks: [usize; 2],
    /// Steps of the coefficients, at the places of [`ZIGZAG`].
    pub(super) steps: [i32; 64],
    pub(super) dc: HuffmanTable,
    pub(super) ac: HuffmanTable,
}

/// A component as the frame header declares it.
struct Declared {
    id: u8,
    blocks: [usize; 2],
    quantisation: usize,
}

/// The tables and segments so far.
#[derive(Default)]
struct Headers {
    quantisation: [Option<[i32; 64]>; 4],
    dc: [Option<HuffmanTable>; 4],
    ac: [Option<HuffmanTable>; 4],
    restart_interval: usize,
    size: [u32; 2],
    declared: Vec<Declared>,
    orientation: Option<Orientation>,
    is_jfif: bool,
    /// The colour transform that an Adobe segment names.
    adobe: Option<u8>,
}

impl Frame {
    /// Reads the headers up to the coded data.
    pub(super) fn parse(encoded: &[u8]) -> Option<Self> {
        let mut headers = Headers::default();
        let mut position = 2;
        loop {
            let [0xFF, code, ..] = encoded.get(position..)? else { return None };
            if *code == 0xFF {
                position += 1;
                continue;
            }
            let [high, low, ..] = encoded.get(position + 2..)? else { return None };
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            let segment = encoded.get(position + 4..position + 2 + length)?;
            position += 2 + length;
            match code {
                0xC0 | 0xC1 => headers.frame(segment)?,
                0xC4 => headers.huffman(segment)?,
                0xDB => headers.quantisation(segment)?,
                0xDD => headers.restart_interval = word(segment)?,
                0xE0 => headers.is_jfif |= segment.starts_with(b"JFIF\0"),
                0xE1 => headers.exif(segment),
                0xEE if segment.starts_with(b"Adobe") => headers.adobe = Some(*segment.get(11)?),
                0xE2..=0xEF | 0xFE => {}
                0xDA => return headers.scan(segment, position),
                // Other frames, arithmetic coding, and what may only stand elsewhere.
                _ => return None,
            }
        }
    }

    /// Width and height of the picture, turned the way it is looked at.
    pub(super) fn size_as_seen(&self) -> [u32; 2] {
        Turn::new(self.orientation).swapped([self.width, self.height])
    }
}

impl Headers {
    fn frame(&mut self, segment: &[u8]) -> Option<()> {
        let [8, h0, h1, w0, w1, count @ (1 | 3), components @ ..] = segment else { return None };
        self.size = [u16::from_be_bytes([*w0, *w1]).into(), u16::from_be_bytes([*h0, *h1]).into()];
        let is_second = !self.declared.is_empty();
        // A height of 0 comes later, in a segment of its own.
        if is_second || self.size.contains(&0) || components.len() != 3 * usize::from(*count) {
            return None;
        }
        let declared = components.as_chunks::<3>().0.iter().map(|[id, sampling, quantisation]| Declared {
            id: *id,
            blocks: [usize::from(sampling >> 4), usize::from(sampling & 15)],
            quantisation: usize::from(*quantisation),
        });
        self.declared = declared.collect();
        Some(())
    }

    fn quantisation(&mut self, mut segment: &[u8]) -> Option<()> {
        while let [destination, rest @ ..] = segment {
            let bytes_each = match destination >> 4 {
                0 => 1,
                1 => 2,
                _ => return None,
            };
            let (values, after) = rest.split_at_checked(64 * bytes_each)?;
            let mut steps = [0; 64];
            for (value, place) in values.chunks_exact(bytes_each).zip(ZIGZAG) {
                steps[usize::from(place)] = value.iter().fold(0, |value, &byte| value << 8 | i32::from(byte));
            }
            *self.quantisation.get_mut(usize::from(destination & 15))? = Some(steps);
            segment = after;
        }
        Some(())
    }

    fn huffman(&mut self, mut segment: &[u8]) -> Option<()> {
        while let [destination, rest @ ..] = segment {
            let (counts, rest) = rest.split_first_chunk::<16>()?;
            let num_symbols = counts.iter().map(|&count| usize::from(count)).sum();
            let (symbols, after) = rest.split_at_checked(num_symbols)?;
            let tables = match destination >> 4 {
                0 => &mut self.dc,
                1 => &mut self.ac,
                _ => return None,
            };
            *tables.get_mut(usize::from(destination & 15))? = Some(HuffmanTable::new(counts, symbols)?);
            segment = after;
        }
        Some(())
    }

    fn exif(&mut self, segment: &[u8]) {
        // Broken metadata doesn't make a broken picture.
        let exif = segment.strip_prefix(b"Exif\0\0").filter(|_| self.orientation.is_none());
        self.orientation = exif.and_then(Orientation::from_exif_chunk).or(self.orientation);
    }

    /// Puts everything together at the header of the one scan.
    fn scan(self, segment: &[u8], data: usize) -> Option<Frame> {
        let [count, rest @ ..] = segment else { return None };
        let (choices, spectrum) = rest.split_at_checked(2 * usize::from(*count))?;
        let is_colour = self.declared.len() == 3;
        if usize::from(*count) != self.declared.len() || spectrum != [0, 63, 0] || is_colour && !self.is_ycbcr() {
            return None;
        }
        let sampling = if is_colour { self.declared[0].blocks } else { [1, 1] };
        let mut components = Vec::new();
        for (index, (declared, [id, tables])) in self.declared.iter().zip(choices.as_chunks::<2>().0).enumerate() {
            // A single component has no MCUs of several blocks, whatever it declares.
            let blocks = if is_colour { declared.blocks } else { [1, 1] };
            let is_usual =
                if index == 0 { blocks.iter().all(|count| (1..=2).contains(count)) } else { blocks == [1, 1] };
            if *id != declared.id || !is_usual {
                return None;
            }
            components.push(Component {
                blocks,
                steps: (*self.quantisation.get(declared.quantisation)?)?,
                dc: self.dc.get(usize::from(tables >> 4))?.clone()?,
                ac: self.ac.get(usize::from(tables & 15))?.clone()?,
            });
        }
        let ([width, height], restart_interval) = (self.size, self.restart_interval);
        let orientation = self.orientation.unwrap_or(Orientation::NoTransforms);
        Some(Frame { width, height, orientation, components, sampling, restart_interval, data })
    }

    /// Whether three components are luma and chroma beyond doubt.
    fn is_ycbcr(&self) -> bool {
        let ids: Vec<u8> = self.declared.iter().map(|declared| declared.id).collect();
        match self.adobe {
            Some(transform) => transform == 1,
            None => (self.is_jfif && ids != *b"RGB") || ids == [1, 2, 3],
        }
    }
}

fn word(segment: &[u8]) -> Option<usize> {
    Some(usize::from(u16::from_be_bytes(*segment.first_chunk()?)))
}
