// SPDX-License-Identifier: GPL-2.0-only
//! The report and its text format.

use std::fmt;
use std::path::Path;

use galcore_client::uapi::feature;
use galcore_client::uapi::QueryChipIdentity;
use galcore_client::Abi;
use galcore_client::Device;
use serde::Serialize;

use crate::features;
use crate::system;

/// Width of the text in columns.
const WIDTH: usize = 100;
/// Column of values.
const INDENT: usize = 12;

/// The report.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// The running kernel's release.
    pub kernel: Option<String>,
    /// The module.
    pub module: Module,
    /// The interface's version, from VERSION.
    pub interface: Option<String>,
    /// Generations of the interface in which the driver answered.
    pub generations: Vec<String>,
    /// The device nodes.
    pub nodes: Vec<system::Node>,
    /// The board's cores and their drivers.
    pub devices: Vec<system::BoardDevice>,
    /// The driver's cores, as clients see them.
    pub cores: Vec<Core>,
    /// The driver's memory.
    pub memory: Option<system::Memory>,
    /// Physical address of GPU address 0.
    pub base_address: Option<u32>,
    /// Why there are no cores.
    pub problem: Option<String>,
}

/// The module.
#[derive(Debug, Default, Serialize)]
pub struct Module {
    /// Whether it is loaded.
    pub loaded: bool,
    /// Its version.
    pub version: Option<String>,
}

/// A core.
#[derive(Debug, Serialize)]
pub struct Core {
    /// Its name, such as GC2000.
    pub chip: String,
    /// Its model.
    pub model: u32,
    /// Its revision.
    pub revision: u32,
    /// Its engines: 3d, 2d, vg, npu.
    pub engines: Vec<&'static str>,
    /// Its feature words.
    pub feature_words: [u32; features::WORDS],
    /// Names of its features.
    pub features: Vec<String>,
    /// Pixel pipes.
    pub pixel_pipes: u32,
    /// Shader cores.
    pub shader_cores: u32,
    /// Shader threads.
    pub threads: u32,
    /// Vertex streams.
    pub vertex_streams: u32,
}

impl Core {
    fn of_device(device: &Device) -> galcore_client::device::Result<Self> {
        let neural = device.abi().values.get("HARDWARE_VIP");
        let is_neural = neural == Some(&device.hardware_type());
        Ok(Self::of(&device.identity()?, is_neural))
    }

    /// `is_neural`: the driver lists it as a neural core.
    fn of(identity: &QueryChipIdentity, is_neural: bool) -> Self {
        let words = [
            identity.chip_features,
            identity.chip_minor_features,
            identity.chip_minor_features1,
            identity.chip_minor_features2,
            identity.chip_minor_features3,
        ];
        let engines: &[_] = if is_neural {
            // Neural cores have the bit for a 3D pipe, but draw nothing.
            &[(feature::PIPE_3D, "npu")]
        } else {
            &[
                (feature::PIPE_3D, "3d"),
                (feature::PIPE_2D, "2d"),
                (feature::PIPE_VG, "vg"),
            ]
        };
        let has = |&(bit, name)| (words[0] & bit != 0).then_some(name);
        Self {
            chip: format!("GC{:x}", identity.chip_model),
            model: identity.chip_model,
            revision: identity.chip_revision,
            engines: engines.iter().filter_map(has).collect(),
            feature_words: words,
            features: features::of(&words),
            pixel_pipes: identity.pixel_pipes,
            shader_cores: identity.shader_core_count,
            threads: identity.thread_count,
            vertex_streams: identity.stream_count,
        }
    }
}

impl Report {
    /// Queries the kernel and the driver.
    pub fn take() -> Self {
        let root = Path::new("/");
        let mut report = Self {
            kernel: system::text("/proc/sys/kernel/osrelease"),
            module: Module {
                loaded: Path::new("/sys/module/galcore").exists(),
                version: system::text("/sys/module/galcore/version"),
            },
            nodes: system::nodes(root),
            devices: system::devices(Path::new("/sys")),
            memory: system::text("/proc/driver/gc").and_then(|text| system::memory(&text)),
            ..Self::default()
        };
        if let Err(error) = report.ask() {
            let reason = report.reason(&error);
            report.problem = Some(reason);
        }
        report
    }

    /// Queries the driver, like a client.
    fn ask(&mut self) -> galcore_client::device::Result<()> {
        let device = Device::open()?;
        let version = device.version()?;
        let (major, minor, patch) = (version.major, version.minor, version.patch);
        self.interface = Some(format!("{major}.{minor}.{patch}.{}", version.build));
        self.base_address = Some(device.base_address()?);
        for number in 0..device.chip_info()?.count.max(0) as usize {
            self.cores
                .push(Core::of_device(&Device::open_core(number)?)?);
        }
        for abi in Abi::all() {
            let device = Device::open_as(abi, true);
            if device.is_ok_and(|device| device.identity().is_ok()) {
                self.generations.push(abi.name.to_string());
            }
        }
        Ok(())
    }

    /// Why the driver could not be queried, and how to fix it.
    fn reason(&self, error: &galcore_client::Error) -> String {
        let held: Vec<&str> = self
            .devices
            .iter()
            .filter_map(|device| device.driver.as_deref())
            .collect();
        let others = held.iter().any(|driver| *driver != "galcore");
        let why = if !self.module.loaded && others {
            "the module galcore is not loaded, and another driver has the cores"
        } else if !self.module.loaded {
            "the module galcore is not loaded: modprobe galcore"
        } else if self.nodes.iter().any(|node| !node.may_open) && held.contains(&"galcore") {
            "the device may not be opened: run this as root, or as one of its group"
        } else if others {
            "no core is galcore's: another driver has them"
        } else if self.devices.is_empty() {
            "no core is galcore's: the device tree has no enabled vivante,gc node, and no parameters describe one"
        } else {
            "no core is galcore's: see what it says in the kernel log (dmesg)"
        };
        format!("{why} ({error})")
    }
}

/// Joins `words` with commas, in lines that start at [`INDENT`].
fn paragraph(words: &[String]) -> String {
    let mut lines = vec![String::new()];
    for (index, word) in words.iter().enumerate() {
        let comma = if index + 1 < words.len() { "," } else { "" };
        let line = lines.last().map_or(0, String::len);
        if line > 0 && INDENT + line + 1 + word.len() + comma.len() > WIDTH {
            lines.push(String::new());
        }
        let space = if lines.last().is_some_and(|line| !line.is_empty()) {
            " "
        } else {
            ""
        };
        if let Some(line) = lines.last_mut() {
            line.push_str(&format!("{space}{word}{comma}"));
        }
    }
    lines.join(&format!("\n{:INDENT$}", ""))
}

impl fmt::Display for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engines = match self.engines.join(" and ") {
            none if none.is_empty() => "no engine that it tells of".to_string(),
            engines => engines
                .replace("3d", "3D")
                .replace("2d", "2D")
                .replace("vg", "vector graphics")
                .replace("npu", "neural networks"),
        };
        writeln!(
            f,
            "{:INDENT$}{} revision {:x}, {engines}",
            "core", self.chip, self.revision
        )?;
        if self.engines.contains(&"3d") {
            let (pipes, cores, threads) = (self.pixel_pipes, self.shader_cores, self.threads);
            let streams = self.vertex_streams;
            writeln!(
                f,
                "{:INDENT$}pixel pipes: {pipes}, shader cores: {cores}, threads: {threads}, vertex streams: {streams}",
                ""
            )?;
        }
        let words = self
            .feature_words
            .map(|word| format!("{word:08x}"))
            .join(" ");
        writeln!(f, "{:INDENT$}{words}", "  features")?;
        if self.features.is_empty() {
            Ok(())
        } else {
            writeln!(f, "{:INDENT$}{}", "", paragraph(&self.features))
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |label: &str, text: String| writeln!(f, "{label:INDENT$}{text}");
        line(
            "kernel",
            self.kernel.clone().unwrap_or_else(|| "unknown".into()),
        )?;
        let version = self
            .module
            .version
            .as_deref()
            .unwrap_or("of unknown version");
        if self.module.loaded {
            line("module", format!("galcore {version}"))?
        } else {
            line("module", "galcore is not loaded".into())?
        }
        if let Some(interface) = &self.interface {
            line("interface", interface.clone())?;
            line("speaks", paragraph(&self.generations))?;
        }
        for node in &self.nodes {
            let denied = if node.may_open {
                ""
            } else {
                ", which you may not open"
            };
            line(
                "node",
                format!("{} {} {}{denied}", node.path, node.mode, node.owner),
            )?;
        }
        for device in &self.devices {
            let driver = match &device.driver {
                Some(driver) => format!("has driver {driver}"),
                None => "has no driver".into(),
            };
            line("device", format!("{} {driver}", device.name))?;
        }
        for core in &self.cores {
            write!(f, "{core}")?;
        }
        let mut line = |label: &str, text: String| writeln!(f, "{label:INDENT$}{text}");
        if let Some(memory) = &self.memory {
            let (pool, used) = (memory.pool_kib, memory.pool_used_kib);
            line("memory", format!("pool: {pool} KiB, {used} in use"))?;
            let (contiguous, scattered) = (memory.contiguous_kib, memory.virtual_kib);
            line(
                "",
                format!(
                    "beside it in use: {contiguous} KiB contiguous, {scattered} KiB page by page"
                ),
            )?;
        }
        if let Some(base @ 1..) = self.base_address {
            line("", format!("GPU addresses count from {base:#x}"))?;
        }
        match &self.problem {
            Some(problem) => line("problem", problem.clone()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gc2000() -> QueryChipIdentity {
        QueryChipIdentity {
            chip_model: 0x2000,
            chip_revision: 0x5108,
            chip_features: 0xe0c_0a05 & !feature::PIPE_2D | feature::PIPE_3D,
            pixel_pipes: 2,
            ..QueryChipIdentity::default()
        }
    }

    #[test]
    fn a_core_reads_well() {
        let core = Core::of(&gc2000(), false);
        let text = core.to_string();
        assert!(
            text.starts_with("core        GC2000 revision 5108, 3D and vector graphics\n"),
            "{text}"
        );
        assert!(text.contains("pixel pipes: 2"), "{text}");
        let text = Core::of(&gc2000(), true).to_string();
        assert!(text.contains("5108, neural networks\n"), "{text}");
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
    }

    #[test]
    fn why_there_is_no_core() {
        let device = |driver: &str| system::BoardDevice {
            name: "130000.gpu".into(),
            driver: Some(driver.into()),
        };
        let error = galcore_client::Error::Usage("x");
        let mut report = Report::default();
        assert!(report.reason(&error).contains("modprobe galcore"));
        report.devices.push(device("etnaviv-gpu"));
        assert!(report
            .reason(&error)
            .contains("another driver has the cores"));
        report.module.loaded = true;
        assert!(report.reason(&error).contains("another driver has them"));
        report.devices.clear();
        assert!(report.reason(&error).contains("no enabled vivante,gc node"));
    }

    #[test]
    fn json_has_the_features() {
        let report = Report {
            cores: vec![Core::of(&gc2000(), false)],
            ..Report::default()
        };
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["cores"][0]["model"], 0x2000);
        assert_eq!(json["cores"][0]["features"][0], "fast clear");
        assert_eq!(json["module"]["loaded"], false);
    }
}
