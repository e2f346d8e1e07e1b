//! Pickles by hand: what is read, and what is refused in which words.

use super::*;

fn read(bytes: &[u8]) -> Result<Pickle<'_>, FileProblem> {
    Pickle::read(bytes, bytes.len())
}

#[test]
fn a_dictionary_of_plain_values_is_read() {
    // {"a": 258, "b": (None, True)}
    let bytes = b"\x80\x02}q\x00(X\x01\x00\x00\x00aM\x02\x01X\x01\x00\x00\x00bN\x88\x86u.";
    let pickle = read(bytes).expect("a pickle");
    let entries = pickle.dict(pickle.root).expect("a dictionary");
    assert_eq!(pickle.text(entries[0].0), Some("a"));
    assert_eq!(entries[0].1, Value::Int(258));
    assert_eq!(pickle.sequence(entries[1].1), Some(&[Value::None, Value::Bool(true)][..]));
    assert_eq!(pickle.len, bytes.len());
}

#[test]
fn names_outside_the_list_are_refused_by_name() {
    let problem = read(b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.").map(|_| ()).expect_err("a shell command");
    assert!(matches!(&problem, FileProblem::UnknownGlobal { name } if name == "os.system"), "{problem}");
    let problem = read(b"\x80\x04\x8c\x02os\x8c\x06system\x93.").map(|_| ()).expect_err("a shell command");
    assert!(matches!(&problem, FileProblem::UnknownGlobal { name } if name == "os.system"), "{problem}");
}

#[test]
fn a_list_that_holds_itself_and_a_deep_nest_are_read() {
    let pickle = read(b"\x80\x02]q\x00h\x00a.").expect("a cycle");
    assert_eq!(pickle.sequence(pickle.root), Some(&[pickle.root][..]));
    let deep = [b"\x80\x02)".to_vec(), vec![0x85; 1000], b".".to_vec()].concat();
    read(&deep).expect("a nest");
}

#[test]
fn more_values_than_a_file_of_that_size_can_mean_are_refused() {
    let many = [b"\x80\x02".to_vec(), vec![b'}'; 100_000], b".".to_vec()].concat();
    assert!(matches!(read(&many).map(|_| ()), Err(FileProblem::TooMuch)));
    let far = b"\x80\x02Nr\xff\xff\xff\xff.";
    assert!(matches!(read(far).map(|_| ()), Err(FileProblem::TooMuch)));
}

#[test]
fn numbers_keep_their_sign() {
    for (bytes, value) in [
        (&b"\x80\x02J\xff\xff\xff\xff."[..], -1),
        (b"\x80\x02\x8a\x01\xfe.", -2),
        (b"\x80\x02\x8a\x02\x00\x80.", -32768),
        (b"\x80\x02\x8a\x00.", 0),
    ] {
        assert_eq!(read(bytes).expect("a number").root, Value::Int(value));
    }
}

#[test]
fn a_pickle_that_ends_early_or_takes_too_much_is_an_error() {
    for bytes in
        [&b""[..], b"\x80", b"\x80\x02", b"\x80\x02.", b"\x80\x02(0.", b"\x80\x02(t", b"\x80\x02X\xff\xff\xff\xffa."]
    {
        assert!(matches!(read(bytes).map(|_| ()), Err(FileProblem::Damaged { .. })), "{bytes:?}");
    }
}
