//! `kiln weights`: listing, and fetching from a server of the test's own.
#![cfg(feature = "fetch")]

#[allow(dead_code, reason = "other test programs need the rest")]
mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use support::{kiln, outcome};

/// A server of one file. Its first answer ends after `cut` bytes; later ones are whole, or what is left of it.
struct Server {
    address: String,
    /// The first line of each request and its range.
    requests: Receiver<(String, Option<usize>)>,
}

impl Server {
    fn start(file: Vec<u8>, cut: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("its address"));
        let (sender, requests) = channel();
        std::thread::spawn(move || {
            for (count, stream) in listener.incoming().flatten().enumerate() {
                let end = if count == 0 { cut } else { file.len() };
                // A client that has gone is the client's affair.
                let _ = answer(stream, &file, end, &sender);
            }
        });
        Self { address, requests }
    }
}

fn answer(
    mut stream: TcpStream,
    file: &[u8],
    end: usize,
    sender: &Sender<(String, Option<usize>)>,
) -> std::io::Result<()> {
    let head: Vec<String> =
        BufReader::new(stream.try_clone()?).lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    let range = head.iter().find_map(|line| {
        let line = line.to_ascii_lowercase();
        line.strip_prefix("range: bytes=")?.strip_suffix('-')?.parse::<usize>().ok()
    });
    let first = head.first().cloned().unwrap_or_default();
    let is_known = first.contains("/tiny.pth ");
    let _ = sender.send((first, range));
    let start = range.unwrap_or(0);
    let (status, length) = match (is_known, start < file.len()) {
        (false, _) => ("404 Not Found".to_owned(), 0),
        (true, false) => ("416 Range Not Satisfiable".to_owned(), 0),
        (true, true) if range.is_some() => {
            let last = file.len() - 1;
            (format!("206 Partial Content\r\nContent-Range: bytes {start}-{last}/{}", file.len()), file.len() - start)
        }
        _ => ("200 OK".to_owned(), file.len()),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nAccept-Ranges: bytes\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    if length > 0 {
        stream.write_all(&file[start..end.max(start)])?;
    }
    Ok(())
}

/// Bytes that stand for weights.
fn bytes() -> Vec<u8> {
    (0..50_000_u32).flat_map(u32::to_le_bytes).collect()
}

/// What `sha256sum` says of these bytes.
const SHA256: &str = "7c843739479f0768cc43a7909050a98939f8b2fc5270f7b5348428974f5d3898";

/// A list whose file `tiny` lies at `source`.
fn list(folder: &Path, source: &str, file: &str) -> PathBuf {
    let path = folder.join("list.toml");
    let text = format!(
        "page = 'https://example.org/weights'\nfolder = '{source}'\nlicence = 'free for tests'\nmean = [0.5, 0.5, 0.5]\n\
         std = [0.5, 0.5, 0.5]\ninput_size = 32\n[[weights]]\nname = 'tiny-v1'\narch = 'resnet18'\nfile = '{file}'\n\
         sha256_begins = '{}'\ntop1 = 50.0\nresize = 36\n",
        &SHA256[..8]
    );
    std::fs::write(&path, text).expect("written");
    path
}

/// The command that fetches, away from any proxy, with `tool` alone to fetch with.
fn fetch(folder: &Path, list: &Path, tool: Option<&Path>) -> Command {
    let path = folder.join("path");
    std::fs::create_dir_all(&path).expect("a folder");
    #[cfg(unix)]
    if let Some(tool) = tool {
        let link = path.join(tool.file_name().expect("a name"));
        let _ = std::os::unix::fs::symlink(tool, link);
    }
    let mut command = kiln(folder);
    command.env("PATH", path).env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
    command.args(["weights", "fetch", "tiny-v1", "--list"]).arg(list).args(["--output", "out"]);
    command
}

/// Where `name` is on this machine; says so if it is nowhere.
#[cfg(unix)]
fn tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file());
    if found.is_none() {
        eprintln!("skipped: {name} is not installed");
    }
    found
}

#[cfg(unix)]
#[test]
fn a_file_that_was_cut_off_is_gone_on_with_and_kept_only_when_it_is_whole() {
    let Some(curl) = tool("curl") else { return };
    let (folder, bytes) = (support::folder(), bytes());
    let cut = 70_001;
    let server = Server::start(bytes.clone(), cut);
    let list = list(folder.path(), &server.address, "tiny.pth");
    let (code, stdout, stderr) = outcome(&mut fetch(folder.path(), &list, Some(&curl)));
    assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
    assert!(stderr.contains("curl failed") && stderr.contains("goes on where it ended"), "{stderr}");
    let part = folder.path().join("out/tiny.pth.part");
    assert_eq!(std::fs::read(&part).expect("what came").len(), cut);

    let (code, stdout, stderr) = outcome(&mut fetch(folder.path(), &list, Some(&curl)));
    assert_eq!((code, stdout.trim()), (Some(0), "out/tiny.pth"), "{stderr}");
    assert!(stderr.contains("free for tests") && stderr.contains(SHA256), "{stderr}");
    assert!(!part.exists() && std::fs::read(folder.path().join("out/tiny.pth")).expect("there") == bytes);
    let ranges: Vec<_> = server.requests.try_iter().map(|(_, range)| range.filter(|start| *start > 0)).collect();
    assert_eq!(ranges, [None, Some(cut)]);

    let (code, stdout, _) = outcome(fetch(folder.path(), &list, None).arg("--json"));
    let json: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!((code, &json["was_there"], &json["sha256"]), (Some(0), &true.into(), &SHA256.into()));
    assert!(server.requests.try_iter().next().is_none(), "nothing more was asked for");
}

#[cfg(unix)]
#[test]
fn a_part_that_the_server_cannot_go_on_with_is_begun_anew() {
    let Some(curl) = tool("curl") else { return };
    let (folder, bytes) = (support::folder(), bytes());
    let server = Server::start(bytes.clone(), bytes.len());
    let list = list(folder.path(), &server.address, "tiny.pth");
    std::fs::create_dir(folder.path().join("out")).expect("a folder");
    std::fs::write(folder.path().join("out/tiny.pth.part"), vec![1; bytes.len() + 5]).expect("written");
    let (code, _, stderr) = outcome(&mut fetch(folder.path(), &list, Some(&curl)));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(std::fs::read(folder.path().join("out/tiny.pth")).expect("there") == bytes);
}

#[cfg(unix)]
#[test]
fn wget_does_where_curl_is_missing_and_without_both_the_person_is_told() {
    let (folder, bytes) = (support::folder(), bytes());
    let server = Server::start(bytes.clone(), bytes.len());
    let list = list(folder.path(), &server.address, "tiny.pth");
    let (code, _, stderr) = outcome(&mut fetch(folder.path(), &list, None));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("neither curl nor wget") && stderr.contains("--weights"), "{stderr}");
    let Some(wget) = tool("wget") else { return };
    let (code, _, stderr) = outcome(&mut fetch(folder.path(), &list, Some(&wget)));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(std::fs::read(folder.path().join("out/tiny.pth")).expect("there") == bytes);
}

#[cfg(unix)]
#[test]
fn a_file_that_the_server_does_not_have_is_named() {
    let Some(curl) = tool("curl") else { return };
    let folder = support::folder();
    let server = Server::start(Vec::new(), 0);
    let list = list(folder.path(), &server.address, "gone.pth");
    let (code, _, stderr) = outcome(&mut fetch(folder.path(), &list, Some(&curl)));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("gone.pth") && stderr.contains("404"), "{stderr}");
}

#[test]
fn bad_input_is_answered_with_what_would_be_good() {
    let folder = support::folder();
    let list = list(folder.path(), "/nowhere", "tiny.pth");
    std::fs::write(folder.path().join("broken.toml"), "page = 1\n").expect("written");
    std::fs::write(folder.path().join("file"), "").expect("written");
    let list = list.to_str().expect("text");
    for (arguments, code, parts) in [
        (&["fetch", "resnet50"][..], 1, &["\"resnet50\"", "resnet50-v1 or resnet50-v2"][..]),
        (&["fetch", "tiny", "--list", list], 1, &["did you mean tiny-v1?"]),
        (&["fetch", "tiny-v1", "--list", list], 1, &["/nowhere/tiny.pth", "`folder`"]),
        (&["fetch", "tiny-v1", "--list", list, "--output", "file"], 1, &["file: ", "--output"]),
        (&["fetch", "tiny-v1", "--list", "broken.toml"], 1, &["broken.toml", "line 1"]),
        (&["--list", "no-such.toml"], 1, &["no-such.toml"]),
        (&["fetch"], 2, &["<NAME>"]),
        (&["--arch", "resnet5O"], 2, &["did you mean \"resnet50\"", "wide_resnet50_2"]),
        (&["fetsh", "x"], 2, &["fetch"]),
    ] {
        let (found, stdout, stderr) = outcome(kiln(folder.path()).arg("weights").args(arguments));
        assert_eq!((found, stdout.as_str()), (Some(code), ""), "{arguments:?}: {stderr}");
        assert!(parts.iter().all(|part| stderr.contains(part)), "{arguments:?}: {parts:?} in {stderr}");
    }
}

#[test]
fn the_list_is_json_for_programs() {
    let folder = support::folder();
    let (code, stdout, stderr) = outcome(kiln(folder.path()).args(["weights", "--arch", "resnet50", "--json"]));
    assert_eq!(code, Some(0), "{stderr}");
    let list: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    let weights = list["weights"].as_array().expect("a list");
    assert_eq!(weights.len(), 2);
    for (key, is_right) in [
        ("name", weights[0]["name"].is_string()),
        ("arch", weights[0]["arch"] == "resnet50"),
        ("file", weights[0]["file"].is_string()),
        ("sha256_begins", weights[0]["sha256_begins"].is_string()),
        ("top1", weights[0]["top1"].is_number()),
        ("mean", list["mean"].as_array().is_some_and(|mean| mean.len() == 3)),
    ] {
        assert!(is_right, "{key} in {list:#}");
    }
}
