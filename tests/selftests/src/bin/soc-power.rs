// SPDX-License-Identifier: GPL-2.0-only
//! Power on an i.MX6: the clocks and the power domain that the SoC's drivers switch for the cores. Clock gates and the
//! regulator of the power domain are read from the SoC's registers, the domain's state and the clocks' users from the
//! kernel.
//!
//! Needs the module not to be in use. Arguments: MODULE PARAMETERS..., with `autosuspend` among them.

use std::fs;
use std::fs::OpenOptions;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::sys::Region;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::Paint;
use galcore_selftests::harness;
use galcore_selftests::harness::eventually;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::system::Module;
use gpu_control::fault;

/// The clock controller's registers, and the words of them that contain gates of the cores' clocks.
const CLOCKS: u64 = 0x020c_4000;
const CCGR1: usize = 0x6c;
const CCGR3: usize = 0x74;
/// The regulators' registers. The word with the voltage of the cores' domain, and its bits. 0 means off.
const REGULATORS: u64 = 0x020c_8000;
const CORE: usize = 0x140;
const CORE_PU: u32 = 0x1f << 9;
const PAGE: usize = 4096;

/// A clock's gate: the word, the lower of its two bits, and the clock's name.
type Gate = (usize, u32, &'static str);

/// Each core's device and gates.
const CORES: [(&str, &[Gate]); 3] = [
    ("130000.gpu", &[(CCGR1, 26, "gpu3d_core")]),
    ("134000.gpu", &[(CCGR1, 24, "gpu2d_core")]),
    (
        "2204000.gpu",
        &[(CCGR1, 24, "gpu2d_core"), (CCGR3, 30, "openvg_axi")],
    ),
];

/// Longest time until a core powers off, or a job starts.
const PATIENCE: Duration = Duration::from_secs(10);

struct Soc {
    clocks: Region,
    regulators: Region,
}

impl Soc {
    fn open() -> Result<Self> {
        let open = |address| -> Result<Region> {
            let memory = OpenOptions::new()
                .read(true)
                .write(true)
                .open("/dev/mem")
                .context("/dev/mem")?;
            Region::map(memory, PAGE, address).with_context(|| format!("{address:#x}"))
        };
        Ok(Soc {
            clocks: open(CLOCKS)?,
            regulators: open(REGULATORS)?,
        })
    }

    /// Whether a gate passes its clock.
    fn is_open(&self, word: usize, bit: u32) -> bool {
        self.clocks.read(word) >> bit & 3 != 0
    }

    /// Whether all gates of a core are open. Fails if the gates and the kernel's use counts differ.
    fn has_clocks(&self, core: &str) -> Result<bool> {
        let (_, gates) = CORES
            .iter()
            .find(|(name, _)| *name == core)
            .with_context(|| format!("{core}: no core of an i.MX6"))?;
        let mut all = true;
        for &(word, bit, clock) in *gates {
            let is_used = text(&format!("/sys/kernel/debug/clk/{clock}/clk_enable_count"))? != "0";
            let is_open = self.is_open(word, bit);
            ensure!(
                is_used == is_open,
                "{clock}: used {is_used}, its gate is open {is_open}"
            );
            all &= is_open;
        }
        Ok(all)
    }

    /// Whether the cores' domain has power, by its regulator. Fails if the kernel's view differs.
    fn has_power(&self) -> Result<bool> {
        let is_on = self.regulators.read(CORE) & CORE_PU != 0;
        let domain = text("/sys/kernel/debug/pm_genpd/PU/current_state")?;
        let regulator = regulator("vddpu")?;
        let seen = (domain.as_str(), regulator.as_str());
        if is_on {
            same("domain and regulator", seen, ("on", "enabled"))?
        } else {
            same("domain and regulator", seen, ("off-0", "disabled"))?
        }
        Ok(is_on)
    }

    /// Waits until all cores, their clocks, and their domain are off.
    fn wait_until_off(&self) -> Result<()> {
        eventually("the domain has no power", PATIENCE, || {
            Ok(self.regulators.read(CORE) & CORE_PU == 0)
        })?;
        // The kernel updates its own state a little later.
        eventually("the kernel says so", PATIENCE, || {
            Ok(self.has_power().is_ok())
        })?;
        for core in system::bound()? {
            ensure!(!self.has_clocks(&core)?, "{core} has clocks without power");
        }
        Ok(())
    }
}

fn text(path: &str) -> Result<String> {
    let text = fs::read_to_string(path).with_context(|| path.to_string())?;
    Ok(text.trim().to_string())
}

/// The state of the regulator of that name.
fn regulator(name: &str) -> Result<String> {
    for entry in fs::read_dir("/sys/class/regulator")? {
        let folder = entry?.path();
        let file = |name: &str| fs::read_to_string(folder.join(name));
        if file("name")?.trim() == name {
            return Ok(file("state")?.trim().to_string());
        }
    }
    anyhow::bail!("there is no regulator {name}")
}

fn write(path: &str, word: &str) -> Result<()> {
    fs::write(path, word).with_context(|| format!("{word} to {path}"))
}

fn main() -> ExitCode {
    harness::program(|| {
        let options = Options::parse(&[])?;
        let module = &Module::from_words(&options.rest)?;
        if !Module::is_loaded() {
            module.load_or_fail()?;
        }
        let soc = &Soc::open()?;
        let control = &Control::open()?;
        let mut suite = Suite::new();
        suite.test(
            "cores with nothing to do have no clock and no power",
            move || {
                ensure!(!system::bound()?.is_empty(), "no core is bound");
                soc.wait_until_off()
            },
        );
        suite.test("a core has both while it draws", move || {
            let mut paint = Paint::new()?;
            let first = system::bound()?.into_iter().next().context("no core")?;
            for round in 0..3 {
                soc.wait_until_off()?;
                let armed = control.arm(fault::SLOW_DRAWS, 1_500_000);
                let stream = paint.fill_all(0xff0a_0b00 + round);
                paint.commit(&stream, &mut galcore_client::Queue::new())?;
                // COMMIT returns while a worker powers on the core. Until then the registers and the kernel may differ.
                eventually("the core has power and clocks", PATIENCE, || {
                    Ok(soc.has_power().unwrap_or(false) && soc.has_clocks(&first).unwrap_or(false))
                })?;
                drop(armed);
                paint.prove(0xff0c_0d00 + round)?;
            }
            soc.wait_until_off()?;
            paint.close()
        });
        suite.test("each core has its own clocks", move || {
            let cores = system::bound()?;
            for core in &cores {
                soc.wait_until_off()?;
                let file = format!("/sys/bus/platform/devices/{core}/power/control");
                write(&file, "on")?;
                let power = soc.has_power();
                let clocks: Result<Vec<_>> =
                    cores.iter().map(|other| soc.has_clocks(other)).collect();
                write(&file, "auto")?;
                ensure!(power?, "{core} is on without power");
                // 2D and VG share a clock, but VG's other clocks stay off.
                let wanted: Vec<_> = cores
                    .iter()
                    .map(|other| other == core || core == "2204000.gpu" && other == "134000.gpu")
                    .collect();
                same(&format!("clocks with {core} on"), clocks?, wanted)?;
            }
            soc.wait_until_off()
        });
        suite.test("without the driver they are off", move || {
            Module::unload()?;
            let power = soc.regulators.read(CORE) & CORE_PU;
            let gates: Vec<_> = CORES.iter().flat_map(|(_, gates)| *gates).collect();
            let open = gates.iter().filter(|gate| soc.is_open(gate.0, gate.1));
            same("power and open gates", (power, open.count()), (0, 0))?;
            module.load_or_fail()?;
            let mut paint = Paint::new()?;
            paint.prove(0xff01_0203)?;
            paint.close()
        });
        suite.run()
    })
}
