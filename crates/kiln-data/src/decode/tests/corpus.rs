//! A folder of odd pictures, each decoded to what its manifest says or refused with a reason.
//!
//! `KILN_CORPUS_DIR` names the folder; its `manifest.csv` tells of each file what Pillow makes of it and what a trainer
//! should do. Columns used: `file`, `trainer_should`, `result`, `pil_format`, `rgb_size`, and the means, of which one
//! over white or of 16 bits scaled to 8 counts before Pillow's own.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;

/// Decoders round differently.
const MEAN_TOLERANCE: f64 = 2.0;

/// Formats of Pillow that are ours too.
const DECODED: [&str; 6] = ["JPEG", "MPO", "PNG", "WEBP", "BMP", "GIF"];

/// Pixels that a file may declare where memory is measured: as many as the largest picture of the corpus has.
const MEASURED: DecodeOptions = DecodeOptions { max_pixels: 24_000_000, ..LIMITS };

/// Resident memory of a process that decodes with `MEASURED`, in MiB: eight bytes a pixel, which is the largest raster
/// there is, and the program itself.
const MOST_RESIDENT_MIB: u64 = 24_000_000 * 8 / (1 << 20) + 64;

/// Where we differ from the manifest on purpose.
const DIFFERENT: [(&str, &str); 6] = [
    ("crash_badadler.png", "its chunks have their checksums; that of the zlib stream isn't looked at"),
    ("crash_empty_ancillary_chunks.png", "broken metadata doesn't make a broken picture"),
    ("png_decompression_dos.png", "the bomb is a text beside the picture, which we never unpack"),
    ("unknown_compression_method.png", "of a colour profile, which we don't use"),
    (
        "bmp_q_pal4rletrns.bmp",
        "pixels that its compression skips are black here, the first colour of the palette there",
    ),
    ("i_trns.png", "its transparent pixels are white here"),
];

type Row = HashMap<String, String>;

/// The corpus, or `None`, said aloud.
pub(super) fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("KILN_CORPUS_DIR").filter(|value| !value.is_empty());
    if folder.is_none() {
        eprintln!("skipped: KILN_CORPUS_DIR is not set");
    }
    folder.map(PathBuf::from)
}

/// The rows of a CSV file with a header; fields may be quoted.
pub(super) fn rows(folder: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(folder.join("manifest.csv")).expect("the manifest");
    let mut lines = records(&text).into_iter();
    let header = lines.next().expect("a header");
    lines.map(|line| header.iter().cloned().zip(line).collect()).collect()
}

/// Records of fields; what is quoted may hold commas, line breaks and doubled quotes.
fn records(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut is_quoted) = (vec![vec![String::new()]], false);
    let mut letters = text.trim_end().chars().filter(|letter| *letter != '\r').peekable();
    while let Some(letter) = letters.next() {
        let record = records.last_mut().expect("a record");
        match letter {
            '"' if is_quoted && letters.next_if_eq(&'"').is_some() => record.last_mut().expect("a field").push('"'),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => record.push(String::new()),
            '\n' if !is_quoted => records.push(vec![String::new()]),
            letter => record.last_mut().expect("a field").push(letter),
        }
    }
    records
}

/// What is wrong with our verdict, if anything.
fn complaint(row: &Row, verdict: &Result<RgbImage, DecodeError>) -> Option<String> {
    if DIFFERENT.iter().any(|(name, _)| row["file"].ends_with(name)) && verdict.is_ok() {
        return None;
    }
    let [should, result] = ["trainer_should", "result"].map(|column| row[column].as_str());
    let was_read = result.starts_with("ok");
    let may_be_odd = should.contains("tolerant") || should.starts_with("ignore") || should.starts_with("report");
    match verdict {
        Err(DecodeError::Panicked { message, .. }) => Some(format!("panicked: {message}")),
        Err(error) => {
            let is_ours = DECODED.contains(&row["pil_format"].as_str());
            let must = was_read && is_ours && !may_be_odd && !should.contains("pixel/byte limit");
            must.then(|| format!("refused: {error}"))
        }
        Ok(_) if !was_read => (!should.starts_with("decode")).then(|| format!("accepted, but: {should}")),
        Ok(image) => {
            let size = format!("{}x{}", image.width, image.height);
            if size != row["rgb_size"] {
                return Some(format!("{size}, not {}", row["rgb_size"]));
            }
            let (found, wanted) = (mean(image), wanted_mean(row));
            let far = |(found, wanted): (&f64, &f64)| (found - wanted).abs() > MEAN_TOLERANCE;
            found.iter().zip(&wanted).any(far).then(|| format!("mean {found:.1?}, not {wanted:.1?}"))
        }
    }
}

fn mean(image: &RgbImage) -> [f64; 3] {
    let sum = |channel: usize| image.pixels.iter().skip(channel).step_by(3).map(|&byte| f64::from(byte)).sum::<f64>();
    [0, 1, 2].map(|channel| sum(channel) / (f64::from(image.width) * f64::from(image.height)))
}

fn wanted_mean(row: &Row) -> [f64; 3] {
    let numbers = |text: &str| text.split('/').filter_map(|number| number.parse().ok()).collect::<Vec<f64>>();
    let columns = ["mean_r", "mean_g", "mean_b"].map(|column| row[column].parse().unwrap_or(f64::NAN));
    match (&numbers(&row["mean_if_scaled_16_to_8"])[..], &numbers(&row["mean_on_white"])[..]) {
        ([scaled], _) => [*scaled; 3],
        (_, [r, g, b]) => [*r, *g, *b],
        _ if columns[1].is_nan() => [columns[0]; 3],
        _ => columns,
    }
}

#[test]
fn every_file_of_the_corpus_is_decoded_as_its_manifest_says_or_refused_by_name() {
    let Some(folder) = folder() else { return };
    let mut complaints = Vec::new();
    for row in rows(&folder) {
        let encoded = std::fs::read(folder.join(&row["file"])).expect("a file of the corpus");
        let verdict = rgb_from_bytes(&encoded, &DecodeOptions::default());
        complaints.extend(complaint(&row, &verdict).map(|text| format!("{}: {text}", row["file"])));
    }
    assert!(complaints.is_empty(), "{} files:\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn bombs_and_the_corpus_take_no_more_memory_than_the_largest_raster_allowed() {
    const CHILD: &str = "KILN_CORPUS_CHILD";
    let Some(folder) = folder() else { return };
    if std::env::var_os(CHILD).is_some() {
        let files = rows(&folder).into_iter().map(|row| std::fs::read(folder.join(&row["file"])).expect("a file"));
        for encoded in files.chain(bombs()) {
            let _ = rgb_from_bytes(&encoded, &MEASURED);
        }
        return eprintln!("resident {} MiB", peak_resident_mib());
    }
    // Alone in a process, because other tests run in this one.
    let name = "decode::tests::corpus::bombs_and_the_corpus_take_no_more_memory_than_the_largest_raster_allowed";
    let this = std::env::current_exe().expect("this program");
    let mut child = Command::new(this);
    let output = child.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().expect("a child");
    let said = String::from_utf8_lossy(&output.stderr);
    let resident = said.split("resident ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
    let resident = resident.unwrap_or_else(|| panic!("no figure in {said}"));
    assert!(resident <= MOST_RESIDENT_MIB, "{resident} MiB");
}

/// Small files that declare almost as many pixels as are allowed.
fn bombs() -> Vec<Vec<u8>> {
    let side = 4800u16;
    let png = png([side.into(); 2], 16, 6, &[&[0; 3]], &[]);
    let mut jpeg = jpeg(8, 8);
    let frame = jpeg.windows(2).position(|pair| pair == [0xFF, 0xC0]).expect("a frame header");
    jpeg[frame + 5..frame + 9].copy_from_slice(&[side.to_be_bytes(), side.to_be_bytes()].concat());
    let mut gif = every_format()[4].1.clone();
    gif[6..10].copy_from_slice(&[side.to_le_bytes(), side.to_le_bytes()].concat());
    let mut bmp = every_format()[3].1.clone();
    bmp[18..26].copy_from_slice(&[u32::from(side).to_le_bytes(), u32::from(side).to_le_bytes()].concat());
    vec![png, jpeg, gif, bmp]
}

/// The most memory that this process has had resident, as Linux counts it; 0 elsewhere.
fn peak_resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().split(' ').next()?.parse().ok());
    peak.unwrap_or(0u64) / 1024
}
