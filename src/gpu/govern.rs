// SPDX-License-Identifier: GPL-2.0-only

//! `gpu_govern`: the operating points of the 3D cores, as in this file of NXP's driver.
//!
//! Lock: `galcore governed`, above the kernel's locks of clocks and regulators. Readers and writers
//! of the file may wait for it, so its holder must not wait for them.

use crate::sys::prelude::*;
use crate::{
    hw::{
        Hardware,
        Points,
        NAMED, //
    },
    sys::text_files::Text, //
};

/// The names of operating points, the highest rate first. Fewer points use the last names.
const NAMES: [&str; NAMED] = ["overdrive", "nominal", "underdrive"];

/// The names of these rates, the highest first.
fn names(rates: &[usize]) -> impl Iterator<Item = (&'static str, usize)> + '_ {
    let first = NAMED.saturating_sub(rates.len());
    let names = NAMES.iter().skip(first).copied();
    names.zip(rates.iter().copied())
}

/// The name of the lowest of `rates` that is at least `rate`. `rates` has the highest first.
fn name_of(rates: &[usize], rate: usize) -> &'static str {
    let covers = |&(_, most): &(&str, usize)| most >= rate;
    let found = names(rates).filter(covers).last();
    found
        .or_else(|| names(rates).next())
        .map_or("", |(name, _)| name)
}

/// The first name of [`NAMES`] that `text` contains.
fn named_in(text: &[u8]) -> Option<&'static str> {
    let is_there = |name: &&str| {
        let mut places = text.windows(name.len());
        places.any(|place| place == name.as_bytes())
    };
    NAMES.iter().find(|name| is_there(name)).copied()
}

/// Writes the contents of the file for a core with these rates, whose clock is at `rate`.
fn describe(rates: &[usize], rate: usize, text: &mut Text<'_>) -> fmt::Result {
    text.write_fmt(fmt!("GPU support {} modes\n", names(rates).count()))?;
    for (name, rate) in names(rates) {
        // The shaders' clock follows the core's.
        text.write_fmt(fmt!(
            "{name}:\tcore_clk frequency: {rate}\tshader_clk frequency: {rate}\n"
        ))?;
    }
    text.write_fmt(fmt!(
        "Currently GPU runs on mode {}\n",
        name_of(rates, rate)
    ))
}

/// A core with operating points.
struct Entry {
    hardware: Arc<Hardware>,
    points: Arc<Points>,
}

/// The bound 3D cores with operating points.
#[pin_data]
pub(crate) struct Governor {
    #[pin]
    cores: Mutex<KVec<Entry>>,
}

/// Keeps a core in the governor until this is dropped.
pub(crate) struct Governed {
    governor: Arc<Governor>,
    hardware: Arc<Hardware>,
}

impl Governor {
    /// A governor without cores.
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                cores <- new_mutex!(KVec::new(), "galcore governed"),
            }),
            GFP_KERNEL,
        )
    }

    /// Adds a core, until the returned value is dropped.
    pub(crate) fn add(
        self: &Arc<Self>,
        hardware: Arc<Hardware>,
        points: Arc<Points>,
    ) -> Result<Governed> {
        let entry = Entry {
            hardware: hardware.clone(),
            points,
        };
        self.cores.lock().push(entry, GFP_KERNEL)?;
        Ok(Governed {
            governor: self.clone(),
            hardware,
        })
    }

    /// Writes the modes and the current mode of the first core, for all cores.
    pub(crate) fn show(&self, text: &mut Text<'_>) -> Result {
        let cores = self.cores.lock();
        let first = cores.first().ok_or(ENODEV)?;
        describe(first.points.rates(), first.hardware.rate(), text).map_err(|_| ENOSPC)
    }

    /// Sets all cores to the mode that `text` names, if they have it. `EINVAL`: no name, or no core
    /// has the mode. Otherwise fails with the first error of a core.
    pub(crate) fn switch(&self, text: &[u8]) -> Result {
        let wanted = named_in(text).ok_or(EINVAL)?;
        let mut result = Err(EINVAL);
        let mut failure = Ok(());
        for core in self.cores.lock().iter() {
            let rate = names(core.points.rates()).find(|(name, _)| *name == wanted);
            let Some((_, rate)) = rate else {
                continue;
            };
            result = Ok(());
            failure = failure.and(core.hardware.set_rate(&core.points, rate));
        }
        result.and(failure)
    }
}

impl Drop for Governed {
    fn drop(&mut self) {
        let gone = {
            let mut cores = self.governor.cores.lock();
            let is_its = |entry: &Entry| Arc::ptr_eq(&entry.hardware, &self.hardware);
            let index = cores.iter().position(is_its);
            index.and_then(|index| cores.remove(index).ok())
        };
        drop(gone);
    }
}

#[kunit_tests(galcore_govern)]
mod tests {
    use super::*;

    fn all(rates: &[usize]) -> [Option<(&'static str, usize)>; 4] {
        let mut found = names(rates);
        core::array::from_fn(|_| found.next())
    }

    #[test]
    fn fewer_have_the_last_names() {
        assert_eq!(
            all(&[3, 2, 1]),
            [
                Some(("overdrive", 3)),
                Some(("nominal", 2)),
                Some(("underdrive", 1)),
                None
            ]
        );
        assert_eq!(
            all(&[3, 2]),
            [Some(("nominal", 3)), Some(("underdrive", 2)), None, None]
        );
        assert_eq!(all(&[3]), [Some(("underdrive", 3)), None, None, None]);
        assert_eq!(all(&[]), [None; 4]);
    }

    #[test]
    fn a_rate_is_of_the_point_that_covers_it() {
        let three = [300, 200, 100];
        for (rate, name) in [
            (300, "overdrive"),
            (201, "overdrive"),
            (200, "nominal"),
            (101, "nominal"),
            (100, "underdrive"),
            (0, "underdrive"),
            // A rate that another driver has set.
            (301, "overdrive"),
        ] {
            assert_eq!(name_of(&three, rate), name);
        }
        assert_eq!(name_of(&[200, 100], 150), "nominal");
        assert_eq!(name_of(&[100], 500), "underdrive");
    }

    #[test]
    fn a_name_is_found_in_a_text() {
        assert_eq!(named_in(b"nominal\n"), Some("nominal"));
        assert_eq!(named_in(b"to underdrive, please"), Some("underdrive"));
        assert_eq!(named_in(b"nominal overdrive"), Some("overdrive"));
        for text in [&b""[..], b"drive", b"Nominal", b"0", b"nomina"] {
            assert_eq!(named_in(text), None);
        }
    }

    #[test]
    fn the_text_is_nxps() {
        let mut page = [0; 256];
        let mut text = Text::new(&mut page);
        assert!(describe(&[300, 200, 100], 200, &mut text).is_ok());
        let bytes = text.bytes();
        let wanted = "GPU support 3 modes\n\
            overdrive:\tcore_clk frequency: 300\tshader_clk frequency: 300\n\
            nominal:\tcore_clk frequency: 200\tshader_clk frequency: 200\n\
            underdrive:\tcore_clk frequency: 100\tshader_clk frequency: 100\n\
            Currently GPU runs on mode nominal\n";
        assert!(page[..bytes] == *wanted.as_bytes());
    }
}
