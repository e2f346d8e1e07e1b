//! TensorBoard's event files: the record of a run as curves that its viewer shows.
//!
//! In: named numbers of a step. Out: bytes of `events.out.tfevents.*`, a sequence of framed records:
//!
//! ```text
//! u64 length of the message | u32 masked CRC-32C of it | message | u32 masked CRC-32C of the message     little-endian
//! ```
//!
//! Source: TensorFlow's `tensorflow/core/lib/io/record_writer.h` for the frame, `core/util/event.proto` and
//! `core/framework/summary.proto` for the messages; keys and variable-length numbers are prost's.
//! An event file only grows, each record at once: a reader passes over one that is cut off, and a file that is replaced as
//! a whole would not be read again. It is the one file of a run that is written so.

use crate::error::TrainError;
use prost::encoding::{WireType, encode_key, encode_varint};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// What the first record of a file says.
const VERSION: &str = "brain.Event:2";

/// `SessionLog.START`: what earlier files say of this step and later ones doesn't count.
const START: u64 = 1;

/// One record of an event file.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Seconds since 1970.
    pub wall_time: f64,
    /// Optimiser steps taken.
    pub step: u64,
    /// What it says.
    pub what: What,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// The file begins.
    Version,
    /// The run goes on from this step.
    Resumed,
    /// Names and values.
    Scalars(Vec<(String, f32)>),
}

impl Event {
    /// The record, framed.
    pub fn to_record(&self) -> Vec<u8> {
        let message = self.message();
        let length = (message.len() as u64).to_le_bytes();
        [&length[..], &masked_crc(&length), &message, &masked_crc(&message)].concat()
    }

    fn message(&self) -> Vec<u8> {
        let mut out = Vec::new();
        encode_key(1, WireType::SixtyFourBit, &mut out);
        out.extend(self.wall_time.to_le_bytes());
        number(2, self.step, &mut out);
        match &self.what {
            What::Version => bytes(3, VERSION.as_bytes(), &mut out),
            What::Scalars(scalars) => {
                let mut summary = Vec::new();
                for (tag, value) in scalars {
                    let mut scalar = Vec::new();
                    bytes(1, tag.as_bytes(), &mut scalar);
                    encode_key(2, WireType::ThirtyTwoBit, &mut scalar);
                    scalar.extend(value.to_le_bytes());
                    bytes(1, &scalar, &mut summary);
                }
                bytes(5, &summary, &mut out);
            }
            What::Resumed => {
                let mut log = Vec::new();
                number(1, START, &mut log);
                bytes(7, &log, &mut out);
            }
        }
        out
    }
}

fn number(tag: u32, value: u64, out: &mut Vec<u8>) {
    encode_key(tag, WireType::Varint, out);
    encode_varint(value, out);
}

fn bytes(tag: u32, value: &[u8], out: &mut Vec<u8>) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(value.len() as u64, out);
    out.extend(value);
}

/// A checksum that isn't fooled by checksums within the data.
fn masked_crc(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xA282_EAD8).to_le_bytes()
}

/// An event file that grows.
#[derive(Debug)]
pub struct EventFile {
    path: PathBuf,
    file: File,
}

impl EventFile {
    /// Begins a file in `folder`, which is made if need be, named after the time and the step.
    ///
    /// # Errors
    /// [`TrainError::Io`] with the file.
    pub fn begin(folder: &Path, wall_time: f64, step: u64) -> Result<Self, TrainError> {
        std::fs::create_dir_all(folder).map_err(TrainError::io("create", folder))?;
        let path = folder.join(format!("events.out.tfevents.{:010}.kiln.{step}", wall_time as u64));
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let mut begun = Self { file: file.map_err(TrainError::io("create", &path))?, path };
        begun.append(&Event { wall_time, step: 0, what: What::Version })?;
        if step > 0 {
            begun.append(&Event { wall_time, step, what: What::Resumed })?;
        }
        Ok(begun)
    }

    /// Adds a record.
    ///
    /// # Errors
    /// [`TrainError::Io`] with the file.
    pub fn append(&mut self, event: &Event) -> Result<(), TrainError> {
        self.file.write_all(&event.to_record()).map_err(TrainError::io("write", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn a_record_is_what_tensorboard_writes() {
        // The first record of any file of TensorBoard's own writer, here at time 0.
        let first = Event { wall_time: 0.0, step: 0, what: What::Version };
        let message = first.message();
        assert_eq!(hex(&message), format!("09{}1000{}{}", "00".repeat(8), "1a0d", hex(VERSION.as_bytes())));
        let record = first.to_record();
        assert_eq!(record.len(), 8 + 4 + message.len() + 4);
        assert_eq!(&record[..8], (message.len() as u64).to_le_bytes());
    }

    #[test]
    fn checksums_are_masked_as_in_the_format() {
        // CRC-32C of "123456789" is e3069283 (RFC 3720's check value).
        let crc = 0xE306_9283u32;
        let masked = crc.rotate_right(15).wrapping_add(0xA282_EAD8);
        assert_eq!(masked_crc(b"123456789"), masked.to_le_bytes());
    }

    #[test]
    fn scalars_are_values_of_a_summary() {
        let event = Event { wall_time: 1.0, step: 300, what: What::Scalars(vec![("a".into(), 0.5)]) };
        let value = "0a0161150000003f";
        let want = format!("09000000000000f03f10ac02{}{}", "2a0a0a08", value);
        assert_eq!(hex(&event.message()), want);
    }

    #[test]
    fn a_resumed_run_begins_a_second_file_that_says_from_where() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        EventFile::begin(folder.path(), 100.0, 0).expect("begun");
        let mut second = EventFile::begin(folder.path(), 200.0, 12).expect("begun");
        second.append(&Event { wall_time: 201.0, step: 13, what: What::Scalars(Vec::new()) }).expect("added");
        let mut names: Vec<_> = std::fs::read_dir(folder.path())
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
            .collect();
        names.sort();
        assert_eq!(names, ["events.out.tfevents.0000000100.kiln.0", "events.out.tfevents.0000000200.kiln.12"]);
        let bytes = std::fs::read(folder.path().join(&names[1])).expect("the file");
        let mut messages = Vec::new();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let length = u64::from_le_bytes(rest[..8].try_into().expect("8 bytes")) as usize;
            assert_eq!(rest[8..12], masked_crc(&rest[..8]));
            let message = &rest[12..12 + length];
            assert_eq!(rest[12 + length..16 + length], masked_crc(message));
            messages.push(hex(&message[9..]));
            rest = &rest[16 + length..];
        }
        assert_eq!(messages[1..], ["100c3a020801", "100d2a00"]);
    }
}
