//! PCI addresses: what joins one card seen by several drivers.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An address on the PCI bus; prints as `0000:01:00.0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PciAddress {
    /// PCI domain, nearly always 0.
    pub domain: u32,
    /// Bus number.
    pub bus: u8,
    /// Device number on the bus.
    pub device: u8,
    /// Function of the device; 0 for a GPU, 1 is usually its audio part.
    pub function: u8,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

impl FromStr for PciAddress {
    type Err = ();

    /// Takes `domain:bus:device.function` in hexadecimal with any number of leading zeros (NVML writes the
    /// domain with eight digits), without the function (then 0) and without the domain (then 0).
    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, function) = text.trim().split_once('.').unwrap_or((text.trim(), "0"));
        let parts: Vec<&str> = address.split(':').collect();
        let (domain, bus, device) = match parts[..] {
            [domain, bus, device] => (domain, bus, device),
            [bus, device] => ("0", bus, device),
            _ => return Err(()),
        };
        let byte = |digits| u8::from_str_radix(digits, 16).map_err(drop);
        Ok(Self {
            domain: u32::from_str_radix(domain, 16).map_err(drop)?,
            bus: byte(bus)?,
            device: byte(device)?,
            function: byte(function)?,
        })
    }
}

impl Serialize for PciAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PciAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|()| de::Error::custom(format!("not a PCI address: {text:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_address_are_equal() {
        let expected = PciAddress { domain: 0, bus: 0xc4, device: 0, function: 0 };
        for text in ["0000:c4:00.0", "00000000:C4:00.0", "c4:00.0", "0000:c4:00"] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        assert_eq!(expected.to_string(), "0000:c4:00.0");
    }

    #[test]
    fn other_text_is_no_address() {
        for text in ["", "PCI bus 1", "1:2:3:4", "0000:zz:00.0", "0000:100:00.0"] {
            assert!(text.parse::<PciAddress>().is_err(), "{text}");
        }
    }
}
