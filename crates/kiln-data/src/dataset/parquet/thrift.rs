//! Reads structures in Thrift's compact protocol, which parquet keeps its descriptions in.
//!
//! In: bytes. Out: [`Thrift`], a tree of values by field number. Whatever the bytes say, the tree is no deeper than
//! [`MAX_DEPTH`] and has no more values than there are bytes.
//! Source: "Thrift compact protocol encoding", Apache Thrift's documentation.

/// Deeper than any structure of parquet.
const MAX_DEPTH: u32 = 16;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Thrift {
    Bool(bool),
    /// Whole numbers of every width.
    Int(i64),
    /// Not used by anything we read.
    Double,
    Bytes(Vec<u8>),
    List(Vec<Thrift>),
    /// Fields with their numbers.
    Struct(Vec<(i16, Thrift)>),
}

impl Thrift {
    /// Reads one structure; gives it and the number of bytes it took. `None` if the bytes aren't one.
    pub(super) fn read(bytes: &[u8]) -> Option<(Self, usize)> {
        let mut reader = Reader { bytes, at: 0 };
        let value = reader.structure(0)?;
        Some((value, reader.at))
    }

    /// The field of a structure.
    pub(super) fn field(&self, number: i16) -> Option<&Self> {
        match self {
            Self::Struct(fields) => fields.iter().find(|(found, _)| *found == number).map(|(_, value)| value),
            _ => None,
        }
    }

    /// A field that is a whole number.
    pub(super) fn int(&self, number: i16) -> Option<i64> {
        match self.field(number)? {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// A field that is a whole number and fits memory.
    pub(super) fn size(&self, number: i16) -> Option<usize> {
        self.int(number).and_then(|value| usize::try_from(value).ok())
    }

    /// A field that is text.
    pub(super) fn text(&self, number: i16) -> Option<&str> {
        self.field(number)?.as_text()
    }

    /// A field that is a list; empty if it isn't there.
    pub(super) fn list(&self, number: i16) -> &[Self] {
        match self.field(number) {
            Some(Self::List(values)) => values,
            _ => &[],
        }
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    /// Seven bits a byte, the lowest first.
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn structure(&mut self, depth: u32) -> Option<Thrift> {
        let (mut fields, mut number) = (Vec::new(), 0i16);
        loop {
            let head = self.byte()?;
            let kind = head & 0x0F;
            if kind == 0 {
                return Some(Thrift::Struct(fields));
            }
            number = match head >> 4 {
                0 => i16::try_from(self.zigzag()?).ok()?,
                step => number.checked_add(i16::from(step))?,
            };
            let value = match kind {
                // In a field the value is in the kind.
                1 | 2 => Thrift::Bool(kind == 1),
                _ => self.value(kind, depth)?,
            };
            fields.push((number, value));
        }
    }

    fn value(&mut self, kind: u8, depth: u32) -> Option<Thrift> {
        if depth > MAX_DEPTH {
            return None;
        }
        Some(match kind {
            1 | 2 => Thrift::Bool(self.byte()? == 1),
            3 => Thrift::Int(i64::from(self.byte()? as i8)),
            4..=6 => Thrift::Int(self.zigzag()?),
            7 => {
                self.take(8)?;
                Thrift::Double
            }
            8 => {
                let len = usize::try_from(self.varint()?).ok()?;
                Thrift::Bytes(self.take(len)?.to_vec())
            }
            9 | 10 => {
                let head = self.byte()?;
                let len = if head >> 4 == 15 { usize::try_from(self.varint()?).ok()? } else { usize::from(head >> 4) };
                // Every value takes at least a byte.
                if len > self.bytes.len() - self.at {
                    return None;
                }
                Thrift::List((0..len).map(|_| self.value(head & 0x0F, depth + 1)).collect::<Option<_>>()?)
            }
            12 => self.structure(depth + 1)?,
            // Maps occur nowhere in parquet's structures.
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lists_and_numbers_are_read() {
        // 1: i32 -3; 2: "ab"; 5: list of i64 [1, 300]; 6: true; 7: struct { 1: i32 1 }; stop.
        let bytes = [0x15, 0x05, 0x18, 2, b'a', b'b', 0x39, 0x26, 2, 0xD8, 4, 0x11, 0x1C, 0x15, 2, 0, 0, 99];
        let (value, len) = Thrift::read(&bytes).expect("a structure");
        assert_eq!(len, bytes.len() - 1);
        assert_eq!((value.int(1), value.text(2), value.size(1)), (Some(-3), Some("ab"), None));
        assert_eq!(value.list(5), [Thrift::Int(1), Thrift::Int(300)]);
        assert_eq!(
            (value.field(6), value.field(7).and_then(|inner| inner.int(1))),
            (Some(&Thrift::Bool(true)), Some(1))
        );
    }

    #[test]
    fn lengths_beyond_the_bytes_and_endless_depth_are_refused() {
        assert_eq!(Thrift::read(&[0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 1]), None);
        assert_eq!(Thrift::read(&[0x19, 0xF6, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F]), None);
        assert_eq!(Thrift::read(&[0x1C; 100]), None);
        assert_eq!(Thrift::read(&[]), None);
    }
}
