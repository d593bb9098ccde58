// SPDX-License-Identifier: GPL-2.0-only
//! The machine's processor, which the kernel determines.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Context;
use anyhow::Result;

/// A processor that QEMU emulates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processor {
    /// 32-bit ARM.
    CortexA15,
    /// 64-bit ARM, which also runs 32-bit programs.
    CortexA76,
}

/// Number of bytes of an arm64 kernel's header that are read here.
const HEADER: usize = 60;

impl Processor {
    /// Reads a kernel image and returns the processor that it needs.
    pub fn of_kernel(image: &Path) -> Result<Self> {
        let mut header = [0; HEADER];
        File::open(image)
            .and_then(|mut file| file.read_exact(&mut header))
            .with_context(|| format!("cannot read the kernel {}", image.display()))?;
        Ok(Self::of_header(&header))
    }

    fn of_header(header: &[u8; HEADER]) -> Self {
        if header.ends_with(b"ARM\x64") {
            Processor::CortexA76
        } else {
            Processor::CortexA15
        }
    }

    /// QEMU's name of the processor.
    pub fn model(self) -> &'static str {
        match self {
            Processor::CortexA15 => "cortex-a15",
            Processor::CortexA76 => "cortex-a76",
        }
    }

    /// The QEMU program that emulates it.
    pub fn qemu(self) -> &'static str {
        match self {
            Processor::CortexA15 => "qemu-system-arm",
            Processor::CortexA76 => "qemu-system-aarch64",
        }
    }

    /// Whether it runs a 64-bit kernel and 64-bit programs.
    pub fn is_64_bit(self) -> bool {
        self == Processor::CortexA76
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_name_their_processor() {
        let mut header = [0; HEADER];
        assert_eq!(Processor::of_header(&header), Processor::CortexA15);
        header[56..].copy_from_slice(&[0x41, 0x52, 0x4D, 0x64]);
        assert_eq!(Processor::of_header(&header), Processor::CortexA76);
    }
}
