//! Puts the members of a shard together to samples: a picture and a label each.
//!
//! In: the members, from the archive or from its index. Out: [`ShardSamples`]. A sample is a run of members whose
//! paths are the same up to the first dot of the file's name. Of it the picture and the label are used: `cls`, a
//! number as text; without it `json` with `label` (a number or a name) or `name`. Other members, hidden ones, and
//! samples with neither picture nor label are passed over. A picture without a label, or two of them, or a name twice,
//! is a fault of the shard. Source: the WebDataset format, github.com/webdataset/webdataset, as its readers and DALI's
//! group members.

use std::fmt;
use std::fs::File;
use std::path::Path;

use serde::Deserialize;

use super::archive::{BLOCK, Member, Members};
use super::index_file::IndexFile;
use super::shard::{Fault, Window};

/// Endings of pictures. What a picture really is shows when it's decoded.
const PICTURES: [&str; 9] = ["jpg", "jpeg", "jpe", "jfif", "png", "webp", "bmp", "gif", "ppm"];

/// Longest label or description read.
const MAX_LABEL_BYTES: u64 = 64 << 10;

const LABEL_IT: &str = "give every picture a .cls member with the number of its class";

/// The samples of one shard, in its order.
#[derive(Default)]
pub(super) struct ShardSamples {
    /// Where each picture lies.
    pub(super) pictures: Vec<Picture>,
    /// The path of each picture in the shard.
    pub(super) names: Names,
    /// What is known of the class of each.
    pub(super) labels: Vec<Label>,
}

/// Where a picture lies in its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Picture {
    pub(super) offset: u64,
    pub(super) size: u32,
}

/// A class as a sample names it: its number, its name, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) number: Option<u32>,
    pub(super) name: Option<Box<str>>,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.number, &self.name) {
            (Some(number), _) => number.fmt(f),
            (None, name) => f.write_str(name.as_deref().unwrap_or_default()),
        }
    }
}

/// Many names in one piece of memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    text: String,
    ends: Vec<u64>,
}

impl Names {
    pub(super) fn push(&mut self, name: &str) {
        self.text.push_str(name);
        self.ends.push(self.text.len() as u64);
    }

    pub(super) fn get(&self, index: usize) -> &str {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        &self.text[start..self.ends[index] as usize]
    }
}

/// Reads the samples of an open shard, by its index if that fits. Also says why an index was not used.
pub(super) fn read(path: &Path, file: &File, len: u64) -> Result<(ShardSamples, Option<String>), Fault> {
    let mut window = Window::new(file, len);
    let unused = match from_index(path, &mut window) {
        Ok(Some(samples)) => return Ok((samples, None)),
        Ok(None) => None,
        Err(reason) => Some(reason),
    };
    let (mut members, mut collector) = (Members::from(0), Collector::default());
    while let Some(member) = members.next(&mut window)? {
        collector.add(&mut window, member)?;
    }
    Ok((collector.finish(&mut window)?, unused))
}

/// `None` if there is no index.
fn from_index(path: &Path, window: &mut Window<'_>) -> Result<Option<ShardSamples>, String> {
    let Some(mut index) = IndexFile::beside(path)? else { return Ok(None) };
    let mut collector = Collector::default();
    while let Some(member) = index.next(window)? {
        // A fault that the index leads to may be the index's. The shard itself will tell.
        collector.add(window, member).map_err(|fault| fault.to_string())?;
    }
    collector.finish(window).map(Some).map_err(|fault| fault.to_string())
}

/// Path up to the first dot of the file's name, and the rest without the dot. `None` for hidden files and such without
/// a dot.
pub(super) fn split_name(name: &str) -> Option<(&str, &str)> {
    let file = name.rfind('/').map_or(0, |slash| slash + 1);
    let dot = file + name[file..].find('.')?;
    (dot > file).then(|| (&name[..dot], &name[dot + 1..]))
}

pub(super) fn is_picture(ending: &str) -> bool {
    PICTURES.iter().any(|known| ending.eq_ignore_ascii_case(known))
}

/// The sample under way and those before it.
#[derive(Default)]
struct Collector {
    samples: ShardSamples,
    base: String,
    first_at: u64,
    endings: Vec<String>,
    picture: Option<Member>,
    number: Option<u32>,
    json: Option<Member>,
}

impl Collector {
    fn add(&mut self, window: &mut Window<'_>, member: Member) -> Result<(), Fault> {
        let Some((base, ending)) = split_name(&member.name) else { return Ok(()) };
        if base != self.base {
            self.close(window)?;
            self.base = base.into();
            self.first_at = member.header_offset();
        }
        let at = member.header_offset();
        if self.endings.iter().any(|known| known == ending) {
            return Err(Fault::new(at, format!("{:?} is there twice", member.name), "write the shard again"));
        }
        self.endings.push(ending.into());
        if is_picture(ending) {
            if let Some(first) = &self.picture {
                let problem = format!("{:?} and {:?} are two pictures of one sample", first.name, member.name);
                return Err(Fault::new(at, problem, "keep one picture a sample"));
            }
            self.picture = Some(member);
        } else if ending.eq_ignore_ascii_case("cls") {
            self.number = Some(class_number(window, &member)?);
        } else if ending.eq_ignore_ascii_case("json") {
            self.json = Some(member);
        }
        Ok(())
    }

    /// Ends the sample under way.
    fn close(&mut self, window: &mut Window<'_>) -> Result<(), Fault> {
        self.endings.clear();
        let (picture, number, json) = (self.picture.take(), self.number.take(), self.json.take());
        let label = match (number, &json) {
            (Some(number), _) => Label { number: Some(number), name: None },
            (None, Some(json)) => described_label(window, json)?,
            (None, None) => Label::default(),
        };
        let has_label = label != Label::default();
        let Some(picture) = picture else {
            return match number {
                Some(_) => {
                    let problem = format!("the sample {:?} has a label and no picture", self.base);
                    Err(Fault::new(self.first_at, problem, "write the shard again"))
                }
                None => Ok(()),
            };
        };
        let at = picture.header_offset();
        if !has_label {
            return Err(Fault::new(at, format!("the picture {:?} has no label", picture.name), LABEL_IT));
        }
        let too_big =
            |_| Fault::new(at, format!("{:?} has {} bytes", picture.name, picture.size), "no picture is that big");
        let size = u32::try_from(picture.size).map_err(too_big)?;
        self.samples.pictures.push(Picture { offset: picture.offset, size });
        self.samples.names.push(&picture.name);
        self.samples.labels.push(label);
        Ok(())
    }

    fn finish(mut self, window: &mut Window<'_>) -> Result<ShardSamples, Fault> {
        self.close(window)?;
        self.check_unique()?;
        Ok(self.samples)
    }

    /// A sample that was written twice, as `tar --append` does to replace it, would count twice.
    fn check_unique(&self) -> Result<(), Fault> {
        let ShardSamples { pictures, names, .. } = &self.samples;
        let mut sorted: Vec<u32> = (0..pictures.len() as u32).collect();
        sorted.sort_unstable_by_key(|&index| names.get(index as usize));
        let twice = sorted.windows(2).find(|pair| names.get(pair[0] as usize) == names.get(pair[1] as usize));
        let Some(twice) = twice else { return Ok(()) };
        let last = twice[0].max(twice[1]) as usize;
        let at = pictures[last].offset.saturating_sub(BLOCK);
        Err(Fault::new(at, format!("{:?} is there twice", names.get(last)), "write the shard again"))
    }
}

/// The number in a `.cls`.
fn class_number(window: &mut Window<'_>, member: &Member) -> Result<u32, Fault> {
    let text = label_text(window, member)?;
    let number = std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok());
    let shown = || String::from_utf8_lossy(&text[..text.len().min(40)]).into_owned();
    number.ok_or_else(|| {
        let problem = format!("{:?} holds {:?} and no number of a class", member.name, shown());
        Fault::new(member.header_offset(), problem, LABEL_IT)
    })
}

/// The label in a `.json`; empty if it says nothing of one.
fn described_label(window: &mut Window<'_>, member: &Member) -> Result<Label, Fault> {
    #[derive(Deserialize)]
    struct Described {
        label: Option<NumberOrName>,
        name: Option<Box<str>>,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum NumberOrName {
        Number(u32),
        Name(Box<str>),
    }
    let described: Described = serde_json::from_slice(label_text(window, member)?).map_err(|reason| {
        let problem = format!("{:?} can't be read as label and name: {reason}", member.name);
        Fault::new(member.header_offset(), problem, LABEL_IT)
    })?;
    Ok(match (described.label, described.name) {
        (Some(NumberOrName::Number(number)), name) => Label { number: Some(number), name },
        (Some(NumberOrName::Name(name)), _) => Label { number: None, name: Some(name) },
        (None, name) => Label { number: None, name },
    })
}

fn label_text<'w>(window: &'w mut Window<'_>, member: &Member) -> Result<&'w [u8], Fault> {
    if member.size > MAX_LABEL_BYTES {
        let problem = format!("{:?} has {} bytes, more than {MAX_LABEL_BYTES}", member.name, member.size);
        return Err(Fault::new(member.header_offset(), problem, LABEL_IT));
    }
    window.bytes(member.offset, member.size)
}
