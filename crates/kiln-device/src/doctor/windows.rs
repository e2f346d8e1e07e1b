//! What Windows keeps in its registry about GPUs, read through its `reg` command and never changed.

#[cfg(any(windows, test))]
use std::time::Duration;

/// Seconds after which Windows takes a GPU away from a kernel (2 unless set); `None` elsewhere.
#[cfg(windows)]
pub(super) fn tdr_delay_secs() -> Option<u32> {
    const KEY: &str = r"HKLM\SYSTEM\CurrentControlSet\Control\GraphicsDrivers";
    let run = || std::process::Command::new("reg").args(["query", KEY, "/v", "TdrDelay"]).output();
    let output = crate::attempt::attempt(Duration::from_secs(2), run).ok()?.ok()?;
    Some(delay_of(&String::from_utf8_lossy(&output.stdout)))
}

/// Other systems have no such limit.
#[cfg(not(windows))]
pub(super) fn tdr_delay_secs() -> Option<u32> {
    None
}

/// The value in `    TdrDelay    REG_DWORD    0xa`; 2, Windows' own, if there is none.
#[cfg(any(windows, test))]
fn delay_of(output: &str) -> u32 {
    const WINDOWS_DEFAULT: Duration = Duration::from_secs(2);
    let line = output.lines().find(|line| line.trim_start().starts_with("TdrDelay"));
    let value = line.and_then(|line| line.split_ascii_whitespace().last());
    value
        .and_then(|hex| u32::from_str_radix(hex.trim_start_matches("0x"), 16).ok())
        .unwrap_or(WINDOWS_DEFAULT.as_secs() as u32)
}

#[cfg(test)]
mod tests {
    use super::delay_of;

    #[test]
    fn the_delay_is_read_from_what_the_command_prints() {
        let key = "\r\nHKEY_LOCAL_MACHINE\\SYSTEM\\CurrentControlSet\\Control\\GraphicsDrivers\r\n";
        assert_eq!(delay_of(&format!("{key}    TdrDelay    REG_DWORD    0xa\r\n\r\n")), 10);
        assert_eq!(delay_of("ERROR: The system was unable to find the specified registry key or value.\r\n"), 2);
    }
}
