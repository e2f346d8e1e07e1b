//! Fake machines for tests of the command, and libraries that are no good.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Where the loader looks first.
pub(crate) const LD: &str = "LD_LIBRARY_PATH";

/// The command, away from the user's own cache and settings.
pub(crate) fn kiln(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    set_up(&mut command, folder);
    command
}

fn set_up(command: &mut Command, folder: &Path) {
    command.current_dir(folder).env("KILN_CACHE_DIR", folder.join("cache"));
    for name in ["KILN_DEVICE", "CUDA_VISIBLE_DEVICES", "VK_DRIVER_FILES", "VK_ICD_FILENAMES", LD] {
        command.env_remove(name);
    }
}

/// A folder of the test's own.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Runs it and gives exit code, standard output and standard error.
pub(crate) fn outcome(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("the command starts");
    (status.code(), String::from_utf8_lossy(&stdout).into_owned(), String::from_utf8_lossy(&stderr).into_owned())
}

/// Says that a test did nothing; fails it where it must not.
pub(crate) fn skip(reason: &str) {
    assert!(std::env::var_os("KILN_REQUIRE_CASES").is_none(), "KILN_REQUIRE_CASES is set: {reason}");
    eprintln!("skipped: {reason}");
}

/// One fake machine, in a folder of its own.
pub(crate) struct Case {
    folder: tempfile::TempDir,
    libraries: Vec<PathBuf>,
    /// What the case expects.
    pub(crate) expected: serde_json::Value,
}

/// The case called `name`, or `None` with the reason printed.
pub(crate) fn case(name: &str) -> Option<Case> {
    let built = match built() {
        Ok(built) => built,
        Err(reason) => {
            skip(reason);
            return None;
        }
    };
    let folder = folder();
    let copied =
        Command::new("cp").arg("-a").arg(built.join("machines").join(name).join(".")).arg(folder.path()).status();
    assert!(copied.is_ok_and(|status| status.success()), "{name} is copied");
    let expected = std::fs::read_to_string(folder.path().join("expected.json")).expect("the case's expectation");
    Some(Case {
        folder,
        libraries: vec![built.join("libraries/both")],
        expected: serde_json::from_str(&expected).expect("JSON"),
    })
}

impl Case {
    /// The folder the command runs in, the case's files included.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The same machine without NVIDIA's libraries.
    pub(crate) fn without_libraries(mut self) -> Self {
        self.libraries.clear();
        self
    }

    /// The same machine with another build of NVML, found before the usual one.
    pub(crate) fn with_nvml(&self, build: &str) -> Self {
        let libraries = built().expect("built before").join("libraries");
        let folder = folder();
        let copied = Command::new("cp").arg("-a").arg(self.folder().join(".")).arg(folder.path()).status();
        assert!(copied.is_ok_and(|status| status.success()), "the case is copied");
        Self { folder, libraries: vec![libraries.join(build), libraries.join("both")], expected: self.expected.clone() }
    }

    /// The command on this machine.
    pub(crate) fn kiln(&self) -> Command {
        let mut command = Command::new("sh");
        set_up(&mut command, self.folder());
        command
            .arg(cases_folder().expect("checked before").join("fakes/in_fake_root.sh"))
            .arg(self.folder().join("root"));
        command.arg(env!("CARGO_BIN_EXE_kiln"));
        command.env("FAKE_CUDA_SPEC", self.folder().join("cuda.spec"));
        command.env("FAKE_NVML_SPEC", self.folder().join("nvml.spec"));
        if !self.libraries.is_empty() {
            command.env(LD, std::env::join_paths(&self.libraries).expect("no colons"));
        }
        command
    }
}

fn cases_folder() -> Option<PathBuf> {
    std::env::var_os("KILN_CASES_DIR").filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The folder with the machines and the fake libraries, made once a process.
fn built() -> Result<&'static Path, &'static str> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BUILT.get_or_init(build).as_ref().map(PathBuf::as_path).map_err(String::as_str)
}

fn build() -> Result<PathBuf, String> {
    let cases = cases_folder().ok_or("KILN_CASES_DIR is not set")?;
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("cases-{}", env!("CARGO_CRATE_NAME")));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    run(Command::new("python3")
        .arg(cases.join("gen_env.py"))
        .arg(folder.join("machines"))
        .env("PYTHONDONTWRITEBYTECODE", "1"))?;
    run(Command::new("sh").arg(cases.join("fakes/build.sh")).arg(folder.join("libraries")))?;
    let root = folder.join("machines/p02_no_driver/root");
    run(Command::new("sh").arg(cases.join("fakes/in_fake_root.sh")).arg(root).arg("true"))
        .map_err(|reason| format!("no mount namespaces here ({reason})"))?;
    Ok(folder)
}

fn run(command: &mut Command) -> Result<(), String> {
    let (code, _, stderr) = match command.output() {
        Ok(output) => (output.status.code(), output.stdout, output.stderr),
        Err(error) => return Err(format!("{} does not start: {error}", command.get_program().to_string_lossy())),
    };
    if code == Some(0) { Ok(()) } else { Err(String::from_utf8_lossy(&stderr).trim().to_owned()) }
}

/// The bytes of a shared library that this machine loads: its C library.
#[allow(dead_code, reason = "not every test program needs it")]
pub(crate) fn a_sound_library() -> Vec<u8> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("this process's libraries");
    let path =
        maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5)).find(|path| path.contains("libc.so"));
    std::fs::read(path.expect("a C library")).expect("its bytes")
}

/// The command where the folder of this machine's `library` shows no such file, and the rest of it; `None`, said aloud,
/// where the system allows no private mounts or the library isn't there anyway.
#[allow(dead_code, reason = "not every test program needs it")]
pub(crate) fn kiln_without(library: &str, folder: &Path) -> Option<Command> {
    let found = Command::new("sh").args(["-c", "ldconfig -p || /sbin/ldconfig -p"]).output().ok()?;
    let found = String::from_utf8_lossy(&found.stdout).into_owned();
    let of_64_bits = |line: &&str| line.trim_start().starts_with(&format!("{library} ")) && line.contains("64");
    let Some(path) = found.lines().find(of_64_bits).and_then(|line| line.rsplit(" => ").next()) else {
        skip(&format!("{library} is not installed"));
        return None;
    };
    let of = Path::new(path).parent().expect("a folder").canonicalize().expect("a folder");
    // A layer over the folder takes the removal; the machine's own file stays.
    let script = "of=$1; library=$2; shift 2; layer=$1; shift
        mkdir -p \"$layer\" && mount -t tmpfs tmpfs \"$layer\" && mkdir \"$layer/upper\" \"$layer/work\" &&
        mount -t overlay overlay -o \"lowerdir=$of,upperdir=$layer/upper,workdir=$layer/work\" \"$of\" &&
        rm \"$of/$library\" && exec \"$@\"";
    let without = |command: &mut Command| {
        command.args(["-m", "sh", "-c", script, "sh"]).arg(&of).arg(library).arg(folder.join("layer"));
    };
    let mut try_out = Command::new("unshare");
    without(&mut try_out);
    if let Err(reason) = run(try_out.arg("true")) {
        skip(&format!("no private mounts here ({reason})"));
        return None;
    }
    let mut command = Command::new("unshare");
    set_up(&mut command, folder);
    without(&mut command);
    command.arg(env!("CARGO_BIN_EXE_kiln"));
    Some(command)
}

/// Builds `libhanging.so` in `folder`, which never returns from being loaded; `None`, said aloud, without a compiler.
pub(crate) fn hanging_library(folder: &Path) -> Option<PathBuf> {
    let source = "#include <unistd.h>\n__attribute__((constructor)) static void hang(void) { for (;;) pause(); }\n";
    let (code, library) = (folder.join("hanging.c"), folder.join("libhanging.so"));
    std::fs::write(&code, source).expect("a written file");
    match run(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&code)) {
        Ok(()) => Some(library),
        Err(reason) => {
            skip(&format!("no C compiler: {reason}"));
            None
        }
    }
}
