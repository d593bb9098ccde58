// SPDX-License-Identifier: GPL-2.0-only

//! `/sys/kernel/debug/gc`, as in the vendor's drivers from 5.0.11 on. Programs read these files.
//!
//! | File | What it has |
//! |---|---|
//! | `info` | the cores: the vendor's number, model, revision |
//! | `clients`, `database`, `vidmem` | the processes; their objects; their memory ([`processes`]) |
//! | `meminfo` | the pools |
//! | `idle`, `load`, `clk` | the first core's times on and off; the load and clocks of each core |
//! | `version`, `core_count`, `poweroff_timeout` | version, number of 3D cores, power-off delay |
//!
//! A process ID that is written to `vidmem` selects that process, and 0 selects all. The vendor's
//! other writable files are read-only: the clock's 64ths (clients and thermal throttling set
//! these), the delay before a core goes off (`autosuspend_delay_ms` of the device), and the number
//! of cores for clients.
//!
//! The numbers of cores are the vendor's: from 0 on for 3D cores, from 8 on for 2D cores, and 9 for
//! the vector graphics core. Source: the debugfs of the 6.4.3 driver, and the parser of imx-gputop.

mod cores;
mod processes;

use crate::sys::prelude::*;
use crate::{
    abi::HardwareType,
    client::{
        AnyCore,
        Device, //
    },
    sys::{
        debugfs::{
            File,
            Folder, //
        },
        decimal::Digits, //
    }, //
};

/// The vendor's numbers of the first 2D core and of the vector graphics core.
const FIRST_2D: usize = 8;
const VECTOR: usize = 9;

/// All files.
static FILES: [File; 11] = [
    File::new(c"info", cores::show_info),
    File::new(c"clients", processes::show_clients),
    File::new(c"meminfo", processes::show_pools),
    File::new(c"idle", cores::show_idle),
    File::new(c"database", processes::show_database),
    File::new(c"version", cores::show_version),
    File::writable(c"vidmem", processes::show_memory, processes::choose),
    File::new(c"clk", cores::show_clocks),
    File::new(c"poweroff_timeout", cores::show_delay),
    File::new(c"core_count", cores::show_count),
    File::new(c"load", cores::show_load),
];

/// The files, until this is dropped.
pub(crate) struct Files {
    _folder: Folder,
}

impl Files {
    /// Creates the files. Errors as [`Folder::new`].
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            _folder: Folder::new(c"gc", &FILES)?,
        })
    }
}

/// The cores with the vendor's numbers.
fn numbered(device: &Device) -> impl Iterator<Item = (usize, AnyCore)> + '_ {
    let mut next = [0, FIRST_2D, VECTOR];
    device.all_cores().map(move |core| {
        let next = match core.kind() {
            HardwareType::ThreeD | HardwareType::Both | HardwareType::Neural => &mut next[0],
            HardwareType::TwoD => &mut next[1],
            HardwareType::Vector => &mut next[2],
        };
        let number = *next;
        *next += 1;
        (number, core)
    })
}

/// Nanoseconds in groups of three digits, as the vendor's driver prints them: 27 characters.
struct Grouped(u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = Digits::of(self.0);
        let digits = digits.text();
        let width = digits.len() + digits.len().saturating_sub(1) / 3;
        for _ in width..27 {
            f.write_str(" ")?;
        }
        for index in 0..digits.len() {
            if index > 0 && (digits.len() - index) % 3 == 0 {
                f.write_str(",")?;
            }
            f.write_str(&digits[index..=index])?;
        }
        Ok(())
    }
}

#[kunit_tests(galcore_gc)]
mod tests {
    use super::*;
    use kernel::str::CString;

    #[test]
    fn numbers_are_grouped() {
        for (number, wanted) in [
            (0, "                          0"),
            (999, "                        999"),
            (1_000, "                      1,000"),
            (12_345_678, "                 12,345,678"),
            (999_999_999_999_999, "        999,999,999,999,999"),
        ] {
            let text = CString::try_from_fmt(fmt!("{}", Grouped(number))).unwrap();
            assert_eq!(text.to_bytes(), wanted.as_bytes());
        }
    }
}
