// SPDX-License-Identifier: GPL-2.0-only
//! The control BAR of the software GPU.

use std::fs::OpenOptions;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::sys::Region;
use gpu_control::counter;
use gpu_control::fault;
use gpu_control::Board;
use gpu_control::FrontEndState;
use gpu_control::ViolationKind;

/// The mapped control BAR.
#[derive(Debug)]
pub struct Control {
    bar: Region,
}

/// A snapshot of the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Rectangles drawn by the 2D engine.
    pub draws_2d: u64,
    /// Windows copied by the resolve engine.
    pub resolves: u64,
    /// 3D draw commands.
    pub draws_3d: u64,
    /// Events that fired.
    pub events: u64,
    /// Soft resets.
    pub resets: u64,
}

impl Counters {
    /// Draws of any kind.
    pub fn draws(&self) -> u64 {
        self.draws_2d + self.resolves + self.draws_3d
    }
}

impl Control {
    /// Maps the control BAR of the board's first core and checks its magic and version.
    pub fn open() -> Result<Self> {
        Self::open_core(0)
    }

    /// Like [`Control::open`], for the core with this number. The order is 3D, 2D, VG, without those that the board
    /// lacks.
    pub fn open_core(number: usize) -> Result<Self> {
        let (bar, offset) = place(number)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&bar)
            .with_context(|| format!("{bar}: no software GPU here?"))?;
        let control = Self {
            bar: Region::map(file, gpu_control::BAR_SIZE as usize, offset)
                .with_context(|| bar.clone())?,
        };
        ensure!(
            control.read(gpu_control::MAGIC) == gpu_control::MAGIC_VALUE,
            "{bar}: not the control BAR of the software GPU"
        );
        let version = control.read(gpu_control::VERSION);
        ensure!(
            version == gpu_control::VERSION_VALUE,
            "{bar}: version {version}, the tests know {}",
            gpu_control::VERSION_VALUE
        );
        Ok(control)
    }

    /// Reads a word.
    pub fn read(&self, offset: usize) -> u32 {
        self.bar.read(offset)
    }

    /// Writes a word.
    pub fn write(&self, offset: usize, value: u32) {
        self.bar.write(offset, value);
        // Writes are posted; the read makes sure that the GPU sees the write first.
        self.bar.read(gpu_control::MAGIC);
    }

    /// Reads a 64-bit counter.
    pub fn counter(&self, offset: usize) -> u64 {
        let low = self.bar.read(offset);
        u64::from(self.bar.read(offset + 4)) << 32 | u64::from(low)
    }

    /// Reads the counters that the tests use.
    pub fn counters(&self) -> Counters {
        Counters {
            draws_2d: self.counter(counter::DRAWS_2D),
            resolves: self.counter(counter::RESOLVES),
            draws_3d: self.counter(counter::DRAWS_3D),
            events: self.counter(counter::EVENTS),
            resets: self.counter(counter::RESETS),
        }
    }

    /// The board that the GPU reports.
    pub fn board(&self) -> Option<Board> {
        Board::from_code(self.read(gpu_control::BOARD))
    }

    /// The state of the front end.
    pub fn front_end(&self) -> Option<FrontEndState> {
        FrontEndState::from_code(self.read(gpu_control::FE_STATE))
    }

    /// The number of violations that no test expected.
    pub fn violations(&self) -> u32 {
        self.read(gpu_control::VIOLATIONS)
    }

    /// Expects MMU exceptions while `run` runs; returns how many the GPU saw.
    pub fn exceptions(&self, run: impl FnOnce() -> Result<()>) -> Result<u32> {
        let seen = self.read(gpu_control::EXPECTED_SEEN);
        let any = ViolationKind::MmuException as u32 | gpu_control::EXPECT_ANY_NUMBER;
        self.write(gpu_control::EXPECT_VIOLATION, any);
        let done = run();
        self.write(gpu_control::CLEAR_EXPECTATIONS, 1);
        done?;
        Ok(self.read(gpu_control::EXPECTED_SEEN) - seen)
    }

    /// Arms a fault. It is disarmed when the returned value is dropped.
    pub fn arm(&self, offset: usize, value: u32) -> Armed<'_> {
        self.write(offset, value);
        Armed { control: self }
    }
}

/// The file with the control BAR of core `number`, and the offset in the file.
fn place(number: usize) -> Result<(String, u64)> {
    if let Ok(list) = std::env::var(gpu_control::CONTROL_VARIABLE) {
        return place_in(&list, number);
    }
    let place = gpu_control::PLACES
        .get(number)
        .context("no board has as many cores")?;
    let bar = format!(
        "/sys/bus/pci/devices/0000:00:{:02x}.0/resource2",
        place.slot
    );
    Ok((bar, 0))
}

fn place_in(list: &str, number: usize) -> Result<(String, u64)> {
    let entry = list.split_whitespace().nth(number);
    let entry = entry.with_context(|| format!("this board has no core {number}"))?;
    let place = entry.split_once(":0x").and_then(|(file, offset)| {
        let offset = u64::from_str_radix(offset, 16).ok()?;
        Some((file.to_string(), offset))
    });
    place.with_context(|| format!("{}: {entry}", gpu_control::CONTROL_VARIABLE))
}

/// Armed faults. Dropping this disarms all of them.
#[derive(Debug)]
pub struct Armed<'a> {
    control: &'a Control,
}

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        self.control.write(fault::CLEAR_ALL, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_bars_lie_where_the_runner_says() {
        let list = "/dev/mem:0x1f00000 /dev/mem:0x1f01000";
        let second = ("/dev/mem".to_string(), 0x1f0_1000);
        assert_eq!(place_in(list, 1).unwrap(), second);
        assert!(place_in(list, 2).is_err());
        for wrong in ["/dev/mem", "/dev/mem:12", "/dev/mem:0xno"] {
            assert!(place_in(wrong, 0).is_err());
        }
    }
}
