// SPDX-License-Identifier: GPL-2.0-only

//! The registers of the host interface, the memory controller and the front end.
//!
//! The names are those of the register database (rnndb `state_hi.xml`, which etnaviv uses). Offsets
//! are in bytes. Source of the meanings: sources.md, bring-up.
//!
//! HI: host interface. MC: memory controller. FE: front end. PM: power management. RA: rasterizer.
//! TX: texture engine. PE: pixel engine. PEZ: its depth half.

use kernel::io::register;

register! {
    /// Clocks, soft reset, and whether the engines are idle.
    pub(crate) HI_CLOCK_CONTROL(u32) @ 0x000 {
        /// Clock divider: n/64 of the input clock, 1 to 64.
        8:2 fscale_val;
        /// Strobe that loads the divider.
        9:9 fscale_cmd_load => bool;
        /// Resets the core while set.
        12:12 soft_reset => bool;
        16:16 idle_3d => bool;
        17:17 idle_2d => bool;
        19:19 isolate_gpu => bool;
    }

    /// One bit per module. 1: idle.
    pub(crate) HI_IDLE_STATE(u32) @ 0x004 {
        /// The front end has stopped.
        0:0 fe => bool;
    }

    /// Cache attributes of the core's AXI accesses.
    pub(crate) HI_AXI_CONFIG(u32) @ 0x008 {
        11:8 awcache;
        15:12 arcache;
    }

    /// Bus errors.
    pub(crate) HI_AXI_STATUS(u32) @ 0x00C {}

    /// Pending interrupts. Reading clears them.
    pub(crate) HI_INTR_ACKNOWLEDGE(u32) @ 0x010 {
        /// One bit per event.
        29:0 events;
        30:30 mmu_exception => bool;
        31:31 axi_bus_error => bool;
    }

    /// Interrupts that are enabled.
    pub(crate) HI_INTR_ENBL(u32) @ 0x014 {}

    /// Identity of old cores.
    pub(crate) HI_CHIP_IDENTITY(u32) @ 0x018 {
        /// Revision, if the family is 1.
        15:12 revision;
        /// 1: the revision is in this register.
        31:24 family;
    }

    /// First word of features.
    pub(crate) HI_CHIP_FEATURE(u32) @ 0x01C {}
    /// Model number.
    pub(crate) HI_CHIP_MODEL(u32) @ 0x020 {}
    /// Revision number.
    pub(crate) HI_CHIP_REV(u32) @ 0x024 {}
    /// Date of the design, in decimal digits.
    pub(crate) HI_CHIP_DATE(u32) @ 0x028 {}
    /// Time of the design, in decimal digits.
    pub(crate) HI_CHIP_TIME(u32) @ 0x02C {}
    /// Customer of the design.
    pub(crate) HI_CHIP_CUSTOMER_ID(u32) @ 0x030 {}
    /// Minor features 0.
    pub(crate) HI_CHIP_MINOR_FEATURE_0(u32) @ 0x034 {}
    /// While it is not 0, the memory counters stay 0.
    pub(crate) HI_MEMORY_COUNTER_RESET(u32) @ 0x03C {}
    /// Units of 8 bytes that the selected pixel pipe has read.
    pub(crate) HI_PROFILE_READ_BYTES8(u32) @ 0x040 {}
    /// Units of 8 bytes that the selected pixel pipe has written.
    pub(crate) HI_PROFILE_WRITE_BYTES8(u32) @ 0x044 {}
    /// Sizes of the shader parts.
    pub(crate) HI_CHIP_SPECS(u32) @ 0x048 {
        3:0 stream_count;
        /// Log 2 of the temporary registers.
        7:4 register_max;
        /// Log 2 of the threads.
        11:8 thread_count;
        16:12 vertex_cache_size;
        24:20 shader_core_count;
        27:25 pixel_pipes;
        /// Log 2 of the vertex output buffer's bytes.
        31:28 vertex_output_buffer_size;
    }
    /// Minor features 1.
    pub(crate) HI_CHIP_MINOR_FEATURE_1(u32) @ 0x074 {}
    /// Cycles or idle cycles, depending on the model.
    pub(crate) HI_PROFILE_TOTAL_CYCLES(u32) @ 0x078 {}
    /// Idle cycles.
    pub(crate) HI_PROFILE_IDLE_CYCLES(u32) @ 0x07C {}
    /// Sizes of instructions and constants.
    pub(crate) HI_CHIP_SPECS_2(u32) @ 0x080 {
        7:0 buffer_size;
        /// Code of the instruction count.
        15:8 instruction_count;
        /// Uniforms.
        31:16 num_constants;
    }
    /// Minor features 2.
    pub(crate) HI_CHIP_MINOR_FEATURE_2(u32) @ 0x084 {}
    /// Minor features 3.
    pub(crate) HI_CHIP_MINOR_FEATURE_3(u32) @ 0x088 {}
    /// Varyings.
    pub(crate) HI_CHIP_SPECS_3(u32) @ 0x08C {
        /// Varyings, or 0.
        8:4 varyings_count;
    }
    /// Minor features 4.
    pub(crate) HI_CHIP_MINOR_FEATURE_4(u32) @ 0x094 {}
    /// Vertex streams that do not fit into the first word of specs.
    pub(crate) HI_CHIP_SPECS_4(u32) @ 0x09C {
        /// Vertex streams, or 0.
        16:12 stream_count;
    }
    /// Minor features 5.
    pub(crate) HI_CHIP_MINOR_FEATURE_5(u32) @ 0x0A0 {}
    /// Product.
    pub(crate) HI_CHIP_PRODUCT_ID(u32) @ 0x0A8 {}
    /// Minor features 6.
    pub(crate) HI_CHIP_MINOR_FEATURE_6(u32) @ 0x0DC {}
    /// Engineering change.
    pub(crate) HI_CHIP_ECO_ID(u32) @ 0x0E8 {}

    /// Clock gating of the modules.
    pub(crate) PM_POWER_CONTROLS(u32) @ 0x100 {
        0:0 enable_module_clock_gating => bool;
        1:1 disable_stall_module_clock_gating => bool;
    }
    /// Modules that are not gated.
    pub(crate) PM_MODULE_CONTROLS(u32) @ 0x104 {}
    /// Pulse eater: thins out the clock.
    pub(crate) PM_PULSE_EATER(u32) @ 0x10C {}

    /// MMU v2: exception codes of four units.
    pub(crate) MMUV2_STATUS(u32) @ 0x188 {}
    /// MMU v2: enables it until the next reset.
    pub(crate) MMUV2_CONTROL(u32) @ 0x18C {
        0:0 enable => bool;
    }
    /// MMU v2: the address of the exception, for each unit.
    pub(crate) MMUV2_EXCEPTION_ADDR(u32)[4] @ 0x190 {}
    /// Secure MMU: the address of the exception.
    pub(crate) MMUV2_SEC_EXCEPTION_ADDR(u32) @ 0x380 {}
    /// Secure MMU: exception codes of four units.
    pub(crate) MMUV2_SEC_STATUS(u32) @ 0x384 {}
    /// Secure MMU: enables it until the next reset.
    pub(crate) MMUV2_SEC_CONTROL(u32) @ 0x388 {
        0:0 enable => bool;
    }
    /// Secure MMU: address of the page table array.
    pub(crate) MMUV2_PTA_ADDRESS_LOW(u32) @ 0x38C {}
    /// Secure MMU: bits 39:32 of that address.
    pub(crate) MMUV2_PTA_ADDRESS_HIGH(u32) @ 0x390 {}
    /// Secure MMU: use of the page table array.
    pub(crate) MMUV2_PTA_CONTROL(u32) @ 0x394 {
        0:0 enable => bool;
    }
    /// Secure MMU: target of accesses that no page maps.
    pub(crate) MMUV2_NONSEC_SAFE_ADDR_LOW(u32) @ 0x398 {}
    /// Secure MMU: target of secure accesses that no page maps.
    pub(crate) MMUV2_SEC_SAFE_ADDR_LOW(u32) @ 0x39C {}
    /// Secure MMU: bits 39:32 of both.
    pub(crate) MMUV2_SAFE_ADDRESS_CONFIG(u32) @ 0x3A0 {}
    /// Secure MMU: starts the front end, after `FE_COMMAND_CONTROL`.
    pub(crate) MMUV2_SEC_COMMAND_CONTROL(u32) @ 0x3A4 {
        /// Units of 8 bytes that may be fetched from the start.
        15:0 prefetch;
        16:16 enable => bool;
    }
    /// Secure MMU: resets the core, and controls access to the registers.
    pub(crate) MMUV2_AHB_CONTROL(u32) @ 0x3A8 {
        0:0 reset => bool;
        1:1 nonsec_access => bool;
    }

    /// MMU v1 page table of the front end.
    pub(crate) MC_MMU_FE_PAGE_TABLE(u32) @ 0x400 {}
    /// MMU v1 page table of the texture engine.
    pub(crate) MC_MMU_TX_PAGE_TABLE(u32) @ 0x404 {}
    /// MMU v1 page table of the pixel engine.
    pub(crate) MC_MMU_PE_PAGE_TABLE(u32) @ 0x408 {}
    /// MMU v1 page table of the depth unit.
    pub(crate) MC_MMU_PEZ_PAGE_TABLE(u32) @ 0x40C {}
    /// MMU v1 page table of the rasterizer.
    pub(crate) MC_MMU_RA_PAGE_TABLE(u32) @ 0x410 {}
    /// Memory controller switches.
    pub(crate) MC_DEBUG_MEMORY(u32) @ 0x414 {
        12:12 hz_l2_disable => bool;
        20:20 fast_clear_bypass => bool;
        21:21 compression_bypass => bool;
    }
    /// Physical address of GPU address 0, for the rasterizer.
    pub(crate) MC_MEMORY_BASE_ADDR_RA(u32) @ 0x418 {}
    /// For the front end.
    pub(crate) MC_MEMORY_BASE_ADDR_FE(u32) @ 0x41C {}
    /// For the texture engine.
    pub(crate) MC_MEMORY_BASE_ADDR_TX(u32) @ 0x420 {}
    /// For the depth unit.
    pub(crate) MC_MEMORY_BASE_ADDR_PEZ(u32) @ 0x424 {}
    /// For the pixel engine.
    pub(crate) MC_MEMORY_BASE_ADDR_PE(u32) @ 0x428 {}
    /// Cycles.
    pub(crate) MC_PROFILE_CYCLE_COUNTER(u32) @ 0x438 {}
    /// Selected counter of the rasterizer.
    pub(crate) MC_PROFILE_RA_READ(u32) @ 0x448 {}
    /// Selected counter of the pixel engine.
    pub(crate) MC_PROFILE_PE_READ(u32) @ 0x454 {}
    /// Selects counters of front end, drawing engine, pixel engine and shader.
    pub(crate) MC_PROFILE_CONFIG0(u32) @ 0x470 {}
    /// Selects counters of primitive assembler, setup, rasterizer and texture engine.
    pub(crate) MC_PROFILE_CONFIG1(u32) @ 0x474 {}
    /// Bus settings.
    pub(crate) MC_BUS_CONFIG(u32) @ 0x480 {}

    /// Vector graphics: start address of the front end.
    pub(crate) VG_COMMAND_ADDRESS(u32) @ 0x500 {}
    /// Vector graphics: length in units of 8 bytes. A write starts the front end.
    pub(crate) VG_COMMAND_COUNT(u32) @ 0x504 {}
    /// Vector graphics: position of the front end.
    pub(crate) VG_COMMAND_POSITION(u32) @ 0x508 {}

    /// Start address of the front end.
    pub(crate) FE_COMMAND_ADDRESS(u32) @ 0x654 {}
    /// Starts and stops the front end.
    pub(crate) FE_COMMAND_CONTROL(u32) @ 0x658 {
        /// Units of 8 bytes that may be fetched from the start.
        15:0 prefetch;
        16:16 enable => bool;
    }
    /// Progress of the front end's fetcher.
    pub(crate) FE_DMA_STATUS(u32) @ 0x65C {}
    /// State of the front end's fetcher.
    pub(crate) FE_DMA_DEBUG_STATE(u32) @ 0x660 {
        4:0 command;
    }
    /// GPU address of the front end's position.
    pub(crate) FE_DMA_ADDRESS(u32) @ 0x664 {}
    /// The first of the two words that the front end fetched last.
    pub(crate) FE_DMA_LOW(u32) @ 0x668 {}
    /// The second of these words.
    pub(crate) FE_DMA_HIGH(u32) @ 0x66C {}
}
