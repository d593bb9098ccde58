// SPDX-License-Identifier: GPL-2.0-only
//! QEMU's machines for the i.MX6, the i.MX8M Mini and Plus, with the software GPU where the SoC has its cores.
//!
//! The cores are PCI devices of the machine's DesignWare host. Before the guest's first instruction, the runner sets
//! up the host: it connects the host's interrupt outputs to the GPU's interrupts (QMP), and uses the host's outbound
//! windows, which map any CPU address to a bus address, to put the cores' registers at the SoC's addresses (qtest).
//! The guest gets a real board's tree, unchanged, and must not have a driver for the host.

use std::fs;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use gpu_control::Board as Core;
use gpu_control::Place;
use serde_json::json;
use serde_json::Value;

use crate::boards::Binding;
use crate::device_tree;
use crate::etnaviv;
use crate::initramfs::GuestFile;
use crate::machine::Assets;
use crate::machine::Boot;
use crate::process::Process;

/// A SoC for which QEMU has a machine, with its addresses.
#[derive(Debug, PartialEq, Eq)]
pub struct Soc {
    /// QEMU's name of the machine.
    machine: &'static str,
    /// The cores' addresses, in the order 3D, 2D, VG or neural. INTA of a slot is the host's output with the slot's
    /// number.
    pub places: &'static [Place],
    /// Bytes of a core's register block.
    pub register_bytes: u32,
    /// The bus of the cores in the tree.
    bus: &'static str,
    /// The UARTs, in QEMU's order.
    uarts: &'static [u32],
    /// Registers of the PCI host.
    dbi: u32,
    /// Addresses that the host maps first to the devices' configuration space, and later to their control BARs.
    scratch: u32,
    /// Bus addresses of the cores' BARs: the registers first, then the control BARs.
    bars: u32,
    /// The interrupt controller's shared interrupts, as a path in QEMU's object tree.
    interrupts: &'static str,
    /// Folder of the device trees in a kernel's build folder.
    trees: &'static str,
    /// Its own regulators in a tree. Their supplies may be on the board.
    regulators: &'static [&'static str],
    /// Kernel modules for the cores and for powering the machine off.
    modules: &'static [&'static str],
    /// For a board with 1 GiB and a GPU described by parameters: the start of the pool, and the kernel arguments that
    /// reserve it.
    reserved: (u64, &'static str),
}

/// i.MX6Q, DL and QP.
pub const IMX6: Soc = Soc {
    machine: "sabrelite",
    places: &[
        place(0, 0x0013_0000, 9),
        place(1, 0x0013_4000, 10),
        place(2, 0x0220_4000, 11),
    ],
    register_bytes: 0x4000,
    bus: "/soc",
    uarts: &[
        0x0202_0000,
        0x021e_8000,
        0x021e_c000,
        0x021f_0000,
        0x021f_4000,
    ],
    dbi: 0x01ff_c000,
    scratch: 0x01f0_0000,
    bars: 0x0100_0000,
    interrupts: "/machine/soc/a9mpcore/unnamed-gpio-in",
    trees: "arch/arm/boot/dts/nxp/imx",
    regulators: &[
        "/soc/bus@2000000/anatop@20c8000/regulator-vddcore",
        "/soc/bus@2000000/anatop@20c8000/regulator-vddpu",
        "/soc/bus@2000000/anatop@20c8000/regulator-vddsoc",
    ],
    modules: &["gpio_mxc", "anatop_regulator", "imx2_wdt"],
    reserved: (0x3400_0000, "mem=576M@0x10000000 mem=256M@0x40000000"),
};

/// i.MX8M Mini.
pub const IMX8MM: Soc = Soc {
    machine: "imx8mm-evk",
    places: &[place(0, 0x3800_0000, 3), place(1, 0x3800_8000, 25)],
    register_bytes: 0x8000,
    bus: "/soc@0",
    uarts: &[0x3086_0000, 0x3089_0000, 0x3088_0000, 0x30a6_0000],
    dbi: 0x3380_0000,
    scratch: 0x1ff0_0000,
    bars: 0x1800_0000,
    interrupts: "/machine/soc/gic/unnamed-gpio-in",
    trees: "arch/arm64/boot/dts/freescale",
    regulators: &[],
    modules: &["gpio_mxc", "nvmem_imx_ocotp", "reset_imx7", "imx2_wdt"],
    reserved: (0x7400_0000, "mem=832M"),
};

/// i.MX8M Plus. It uses the same addresses, and has a neural core.
pub const IMX8MP: Soc = Soc {
    machine: "imx8mp-evk",
    places: &[
        place(0, 0x3800_0000, 3),
        place(1, 0x3800_8000, 25),
        place(2, 0x3850_0000, 13),
    ],
    ..IMX8MM
};

const fn place(slot: u32, registers: u32, interrupt: u32) -> Place {
    Place {
        slot,
        registers,
        interrupt,
    }
}

/// The bus of the cores.
pub const BUS: &str = "dw-pcie";

/// Distance between the bus addresses of two cores' registers.
const BAR_STEP: u32 = 0x4_0000;
/// Distance from the first registers to the control BARs.
const CONTROL_BARS: u32 = 3 * BAR_STEP;
/// Bytes of a control BAR.
const CONTROL_STEP: u32 = 0x1000;
/// Bus number of the cores' devices.
const BUS_NUMBER: u32 = 1;

/// The host's path in QEMU's object tree.
const HOST_PATH: &str = "/machine/soc/pcie";

/// The machine's two sockets for the setup, in the boot's folder.
pub const QMP: &str = "qmp";
/// See [`QMP`].
pub const QTEST: &str = "qtest";

/// Time limit for an answer of QEMU.
const PATIENCE: Duration = Duration::from_secs(60);

impl Soc {
    /// QEMU option for the machine. Its on-chip RAM is shared too, because the GPU model maps all memory.
    pub fn machine(&self) -> String {
        format!("{},memory-backend=ram,aux-ram-share=on", self.machine)
    }

    /// Start of the pool, or `None` if the driver allocates it from contiguous memory, and its size. If parameters
    /// describe the GPU, the pool is at the end of the GPU's reach.
    pub fn pool(&self, binding: Binding) -> (Option<u64>, u64) {
        match binding {
            Binding::Dt => (None, 64 << 20),
            Binding::Params => (Some(self.reserved.0), 192 << 20),
        }
    }

    /// The kernel arguments for memory.
    pub fn memory_arguments(&self, binding: Binding) -> &'static str {
        match binding {
            Binding::Dt => "cma=192M",
            Binding::Params => self.reserved.1,
        }
    }

    /// Value of the environment variable that gives the guest's programs the addresses of the cores' control BARs.
    pub fn control_bars(&self, boot: &Boot) -> String {
        let bars = boot
            .board
            .placed()
            .map(|(_, place)| format!("/dev/mem:{:#x}", self.scratch + place.slot * CONTROL_STEP));
        bars.collect::<Vec<_>>().join(" ")
    }

    /// A window's registers and values, in write order. The last write activates the window.
    fn window(
        &self,
        number: u32,
        address: u32,
        bytes: u32,
        bus: u32,
        kind: Kind,
    ) -> [(u32, u32); 9] {
        [
            (self.dbi + 0x900, number),
            (self.dbi + 0x908, 0),
            (self.dbi + 0x90c, address),
            (self.dbi + 0x910, 0),
            (self.dbi + 0x914, address + bytes - 1),
            (self.dbi + 0x918, bus),
            (self.dbi + 0x91c, 0),
            (self.dbi + 0x904, kind as u32),
            (self.dbi + 0x908, 1 << 31),
        ]
    }

    /// Registers of the root port: its buses, its memory, and forwarding in both directions.
    fn root_port(&self) -> [(u32, u32); 3] {
        [
            (self.dbi + 0x18, BUS_NUMBER << 16 | BUS_NUMBER << 8),
            (self.dbi + 0x20, self.bars & 0xfff0_0000 | self.bars >> 16),
            (self.dbi + 0x04, 6),
        ]
    }

    /// Registers of a slot's device, written through the window at `scratch`.
    fn device(&self, slot: u32) -> [(u32, u32); 3] {
        let control = self.bars + CONTROL_BARS + slot * CONTROL_STEP;
        [
            (self.scratch + 0x10, self.bars + slot * BAR_STEP),
            (self.scratch + 0x18, control),
            (self.scratch + 0x04, 6),
        ]
    }

    /// Waits for QEMU, sets up its machine, and starts the guest. If QEMU ends, this returns without an error; the
    /// main loop detects that.
    pub fn set_up(&self, boot: &Boot, sockets: Sockets, qemu: &mut Process) -> Result<()> {
        let Some((qmp, qtest)) = sockets.connected(qemu)? else {
            return Ok(());
        };
        let (mut qmp, mut qtest) = (Lines::new(qmp)?, Lines::new(qtest)?);
        let done = self.place(boot, &mut qmp, &mut qtest);
        match (done, qemu.wait(Duration::from_millis(100))) {
            (Err(_), Some(_)) => Ok(()),
            (done, _) => done,
        }
    }

    fn place(&self, boot: &Boot, qmp: &mut Lines, qtest: &mut Lines) -> Result<()> {
        qmp.greeted()?;
        qmp.execute("qmp_capabilities", json!({}))?;
        for (_, place) in boot.board.placed() {
            let wire = json!({
                "path": HOST_PATH,
                "property": format!("sysbus-irq[{}]", place.slot),
                "value": format!("{}[{}]", self.interrupts, place.interrupt),
            });
            qmp.execute("qom-set", wire)?;
        }
        qtest.write_all(&self.root_port())?;
        for (core, place) in boot.board.placed() {
            let function = BUS_NUMBER << 24 | place.slot << 19;
            qtest.write_all(&self.window(
                0,
                self.scratch,
                0x1_0000,
                function,
                Kind::Configuration,
            ))?;
            let id = qtest.readl(self.scratch)?;
            let wanted =
                u32::from(gpu_control::PCI_DEVICE_ID) << 16 | u32::from(gpu_control::PCI_VENDOR_ID);
            ensure!(
                id == wanted,
                "{} is not in slot {} of the machine's PCI bus: {id:#x}",
                core.name(),
                place.slot
            );
            qtest.write_all(&self.device(place.slot))?;
        }
        qtest.write_all(&self.window(
            0,
            self.scratch,
            3 * CONTROL_STEP,
            self.bars + CONTROL_BARS,
            Kind::Memory,
        ))?;
        for (number, (core, place)) in (1..).zip(boot.board.placed()) {
            let bus = self.bars + place.slot * BAR_STEP;
            qtest.write_all(&self.window(
                number,
                place.registers,
                self.register_bytes,
                bus,
                Kind::Memory,
            ))?;
            let control = self.scratch + place.slot * CONTROL_STEP;
            let code = qtest.readl(control + gpu_control::BOARD as u32)?;
            ensure!(
                Core::from_code(code) == Some(core),
                "the control BAR of {} is not at {control:#x}: {code:#x}",
                core.name()
            );
        }
        qmp.execute("cont", json!({}))
    }
}

/// The device tree of a boot, and the UARTs that it describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// The SoC that the tree describes.
    pub soc: &'static Soc,
    /// The file.
    pub path: PathBuf,
    /// The UART of the kernel's console, as an index into [`Soc::uarts`].
    pub console: usize,
    /// The UART of the runner's ports.
    pub ports: usize,
}

impl Tree {
    /// The tree of `boot` on a real board's machine: `usual`, unless the boot names another. If parameters describe
    /// the cores, a changed copy is made in `dir`.
    pub fn of_boot(
        soc: &'static Soc,
        usual: &str,
        assets: &Assets,
        boot: &Boot,
        dir: &Path,
    ) -> Result<Tree> {
        if !boot.tree.is_empty() {
            bail!("--tree is for the made-up boards");
        }
        if boot.binding == Binding::Params && boot.memory < 1024 {
            bail!("the parameters are those of a board with 1024 MiB (--memory)");
        }
        let name = match boot.dtb.as_str() {
            "" => usual,
            name => name,
        };
        let mut path = soc.file(assets, name)?;
        if boot.binding == Binding::Params {
            path = soc.without_cores(&path, boot, dir)?;
        }
        let source = device_tree::source(&path)?;
        let console = soc
            .console(&source)
            .with_context(|| format!("{} names no UART for the console", path.display()))?;
        Ok(Tree {
            soc,
            path,
            console,
            ports: soc.unused(&source, console),
        })
    }

    /// The SoC's modules that the kernel does not have built in.
    pub fn modules(&self, assets: &Assets) -> Vec<GuestFile> {
        let build = build(assets);
        build.map_or_else(Vec::new, |build| etnaviv::early(build, self.soc.modules))
    }

    /// Kernel arguments: the console's name, the address of the ports' UART, no driver for the host (Debian's kernels
    /// have one), and access through /dev/mem to the registers of a UART with a driver.
    pub fn arguments(&self) -> String {
        let uarts = self.soc.uarts;
        format!(
            "console=ttymxc{},115200 earlycon=ec_imx6q,{:#x} GALCORE_UART={:#x} initcall_blacklist=imx_pcie_init \
             iomem=relaxed",
            self.console, uarts[self.console], uarts[self.ports]
        )
    }

    /// QEMU's -serial options, one per UART: the console is on stdio, the ports are on the chardev with that name.
    pub fn serial(&self, chardev: &str) -> Vec<String> {
        let of_uart = |number| match number {
            _ if number == self.console => "stdio".to_string(),
            _ if number == self.ports => format!("chardev:{chardev}"),
            _ => "null".to_string(),
        };
        (0..self.soc.uarts.len()).map(of_uart).collect()
    }
}

/// The kernel's build folder, from the path of its image: BUILD/arch/ARCH/boot/IMAGE.
pub fn build(assets: &Assets) -> Option<&Path> {
    assets.kernel.ancestors().nth(4)
}

impl Soc {
    /// The file of tree `name`: one of the kernel's build, or the file at that path.
    fn file(&self, assets: &Assets, name: &str) -> Result<PathBuf> {
        let path = if name.contains('/') {
            PathBuf::from(name)
        } else {
            self.folder(assets)?.join(format!("{name}.dtb"))
        };
        if !path.is_file() {
            bail!(
                "there is no device tree {}: this kernel's build has none of that name",
                path.display()
            );
        }
        Ok(path)
    }

    /// The folder of the boards' trees in the kernel's build folder.
    pub fn folder(&self, assets: &Assets) -> Result<PathBuf> {
        let build = build(assets).context("the kernel has a build folder")?;
        Ok(build.join(self.trees))
    }

    /// Makes a copy of tree `name` in `dir` with the SoC's regulators without their board supplies. `None` if they
    /// have none.
    pub fn without_supplies(
        &self,
        assets: &Assets,
        name: &str,
        dir: &Path,
    ) -> Result<Option<PathBuf>> {
        let tree = self.file(assets, name)?;
        let source = device_tree::source(&tree)?;
        let changed = dir.join(format!("{name}.dtb"));
        let mut is_changed = false;
        for regulator in self.regulators {
            let node = regulator.rsplit('/').next().unwrap_or(regulator);
            if property(&source, node, "vin-supply").is_none() {
                continue;
            }
            if !is_changed {
                fs::copy(&tree, &changed)
                    .with_context(|| format!("cannot copy {}", tree.display()))?;
                is_changed = true;
            }
            let mut delete = Command::new("fdtput");
            delete
                .arg("-d")
                .arg(&changed)
                .args([regulator, "vin-supply"]);
            device_tree::run(delete)?;
        }
        Ok(is_changed.then_some(changed))
    }

    /// A copy of the tree with the cores' nodes disabled.
    fn without_cores(&self, tree: &Path, boot: &Boot, dir: &Path) -> Result<PathBuf> {
        let changed = dir.join("params.dtb");
        fs::copy(tree, &changed).with_context(|| format!("cannot copy {}", tree.display()))?;
        for (core, place) in boot.board.placed() {
            let name = if core == Core::Npu { "npu" } else { "gpu" };
            let mut disable = Command::new("fdtput");
            disable.args(["-t", "s"]).arg(&changed);
            disable.arg(format!("{}/{name}@{:x}", self.bus, place.registers));
            disable.args(["status", "disabled"]);
            device_tree::run(disable)?;
        }
        Ok(changed)
    }

    /// The UART of the console in the tree. If the boot loader selects it, this is the first UART that the board
    /// uses.
    fn console(&self, source: &str) -> Option<usize> {
        let Some(path) = property(source, "\tchosen", "stdout-path") else {
            return (0..self.uarts.len())
                .find(|&number| self.status(source, number) == Some("okay"));
        };
        let path = path.split(':').next().unwrap_or(path);
        let path = if path.starts_with('/') {
            path
        } else {
            property(source, "\taliases", path)?
        };
        let (_, address) = path.rsplit_once('@')?;
        let address = u32::from_str_radix(address, 16).ok()?;
        self.uarts.iter().position(|&uart| uart == address)
    }

    /// The status property of a UART in the tree.
    fn status<'a>(&self, source: &'a str, number: usize) -> Option<&'a str> {
        property(
            source,
            &format!("serial@{:x}", self.uarts[number]),
            "status",
        )
    }

    /// A UART that the board does not use. If it uses all, one that is not the console.
    fn unused(&self, source: &str, console: usize) -> usize {
        let is_off = |&number: &usize| self.status(source, number) == Some("disabled");
        let others = || {
            (0..self.uarts.len())
                .rev()
                .filter(|&number| number != console)
        };
        let first = others().find(is_off).or_else(|| others().next());
        first.unwrap_or_default()
    }
}

/// A node's property in the source of a tree, as text.
fn property<'a>(source: &'a str, node: &str, name: &str) -> Option<&'a str> {
    let body = source.split(&format!("{node} {{\n")).nth(1)?;
    let body = body.split("};").next()?;
    body.lines().find_map(|line| {
        let (found, value) = line.trim().strip_suffix(';')?.split_once(" = ")?;
        (found == name).then(|| value.trim_matches('"'))
    })
}

/// The target of a window of the host.
#[derive(Clone, Copy)]
enum Kind {
    Memory = 0,
    Configuration = 4,
}

/// The sockets that QEMU connects to.
pub struct Sockets {
    qmp: UnixListener,
    qtest: UnixListener,
}

impl Sockets {
    /// Creates them in `dir`.
    pub fn new(dir: &Path) -> Result<Sockets> {
        let listen = |name: &str| -> Result<UnixListener> {
            let listener = UnixListener::bind(dir.join(name))
                .with_context(|| format!("cannot make a socket in {}", dir.display()))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        Ok(Sockets {
            qmp: listen(QMP)?,
            qtest: listen(QTEST)?,
        })
    }

    /// Both connections. `None` if QEMU has ended.
    fn connected(self, qemu: &mut Process) -> Result<Option<(UnixStream, UnixStream)>> {
        let mut found = (None, None);
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let accept = |listener: &UnixListener| listener.accept().ok().map(|(stream, _)| stream);
            found.0 = found.0.or_else(|| accept(&self.qmp));
            found.1 = found.1.or_else(|| accept(&self.qtest));
            match found {
                (Some(qmp), Some(qtest)) => return Ok(Some((qmp, qtest))),
                other => found = other,
            }
            if qemu.ended().is_some() {
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(5));
        }
        bail!("QEMU does not connect for the machine's set-up");
    }
}

/// A connection where each line gets a line as its answer.
struct Lines {
    reader: BufReader<UnixStream>,
}

impl Lines {
    fn new(stream: UnixStream) -> Result<Lines> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Lines {
            reader: BufReader::new(stream),
        })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        let count = self.reader.read_line(&mut line);
        ensure!(
            count.context("QEMU does not answer")? > 0,
            "QEMU has closed its connection"
        );
        Ok(line)
    }

    /// Reads QMP's greeting.
    fn greeted(&mut self) -> Result<()> {
        self.line().map(drop)
    }

    /// Executes a QMP command. Events before the answer are skipped.
    fn execute(&mut self, command: &str, arguments: Value) -> Result<()> {
        let request = json!({ "execute": command, "arguments": arguments });
        writeln!(self.reader.get_mut(), "{request}")?;
        loop {
            let answer: Value = serde_json::from_str(&self.line()?)?;
            if let Some(error) = answer.get("error") {
                bail!("QEMU refuses {request}: {error}");
            }
            if answer.get("return").is_some() {
                return Ok(());
            }
        }
    }

    /// Executes a qtest command. Lines about interrupts are skipped.
    fn command(&mut self, command: &str) -> Result<String> {
        writeln!(self.reader.get_mut(), "{command}")?;
        loop {
            let line = self.line()?;
            if let Some(answer) = line.strip_prefix("OK") {
                return Ok(answer.trim().to_string());
            }
            ensure!(
                line.starts_with("IRQ"),
                "QEMU refuses '{command}': {}",
                line.trim()
            );
        }
    }

    fn write_all(&mut self, writes: &[(u32, u32)]) -> Result<()> {
        for (address, value) in writes {
            self.command(&format!("writel {address:#x} {value:#x}"))?;
        }
        Ok(())
    }

    fn readl(&mut self, address: u32) -> Result<u32> {
        let answer = self.command(&format!("readl {address:#x}"))?;
        let digits = answer.strip_prefix("0x").unwrap_or(&answer);
        // A 64-bit word with an upper half of 0.
        let value = u64::from_str_radix(digits, 16).context("qtest's answer to readl")?;
        Ok(u32::try_from(value)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_applied_by_their_last_word() {
        let words = IMX6.window(2, 0x13_4000, 0x4000, 0x0104_0000, Kind::Memory);
        assert_eq!(words[0], (0x01ff_c900, 2));
        assert_eq!(words[2], (0x01ff_c90c, 0x13_4000));
        assert_eq!(words[4], (0x01ff_c914, 0x13_7fff));
        assert_eq!(words[5], (0x01ff_c918, 0x0104_0000));
        assert_eq!(words[7], (0x01ff_c904, 0));
        assert_eq!(words[8], (0x01ff_c908, 0x8000_0000));
        let words = IMX6.window(0, IMX6.scratch, 0x1_0000, 1 << 24, Kind::Configuration);
        assert_eq!(words[7].1, 4);
    }

    #[test]
    fn the_root_port_reaches_all_bars() {
        assert_eq!(
            IMX6.root_port(),
            [
                (0x01ff_c018, 0x0001_0100),
                (0x01ff_c020, 0x0100_0100),
                (0x01ff_c004, 6)
            ]
        );
        // Base and limit are in the same MiB.
        let last = IMX6.device(2)[1].1 + CONTROL_STEP - 1;
        assert_eq!((last >> 20, last), (IMX6.bars >> 20, 0x010c_2fff));
        assert_eq!(IMX8MP.root_port()[1], (0x3380_0020, 0x1800_1800));
    }

    const TREE: &str = "/dts-v1/;\n\n/ {\n\taliases {\n\t\tserial0 = \"/soc/bus@2000000/spba-bus@2000000/serial@2020000\";\n\
        \t\tserial1 = \"/soc/bus@2100000/serial@21e8000\";\n\t};\n\n\
        \tchosen {\n\t\tstdout-path = \"serial1:115200n8\";\n\t};\n\n\
        \t\t\tserial@2020000 {\n\t\t\t\tstatus = \"okay\";\n\t\t\t};\n\
        \t\t\tserial@21f0000 {\n\t\t\t\tstatus = \"disabled\";\n\t\t\t};\n\
        \t\t\tserial@21f4000 {\n\t\t\t\tstatus = \"okay\";\n\t\t\t};\n};\n";

    #[test]
    fn the_tree_names_the_console_and_leaves_uarts() {
        assert_eq!(IMX6.console(TREE), Some(1));
        let by_path = TREE.replace("serial1:115200n8", "/soc/bus@2000000/serial@2020000");
        assert_eq!(IMX6.console(&by_path), Some(0));
        assert_eq!(IMX6.console(&TREE.replace("serial1:", "serial7:")), None);
        assert_eq!(IMX6.console(&TREE.replace("stdout-path", "other")), Some(0));
        assert_eq!(IMX6.unused(TREE, 1), 3);
        let none_is_off = TREE.replace("disabled", "okay");
        assert_eq!(IMX6.unused(&none_is_off, 1), 4);
        assert_eq!(IMX6.unused(&none_is_off, 4), 3);
        let tree = Tree {
            soc: &IMX6,
            path: PathBuf::new(),
            console: 1,
            ports: 3,
        };
        assert_eq!(
            tree.serial("ports"),
            ["null", "stdio", "null", "chardev:ports", "null"]
        );
        assert!(tree.arguments().contains("console=ttymxc1,"));
        assert!(tree.arguments().contains(" GALCORE_UART=0x21f0000 "));
    }
}
