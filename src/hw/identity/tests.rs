// SPDX-License-Identifier: GPL-2.0-only

//! The KUnit suite of [`super`].

#[kernel::macros::kunit_tests(galcore_identity)]
mod cases {
    use super::super::*;
    use crate::params::Choice;

    struct Core {
        model: u32,
        revision: u32,
        features: u32,
        minor: [u32; 4],
        specs: [u32; 4],
    }

    impl Words for Core {
        fn word(&self, offset: usize) -> u32 {
            match offset {
                0x01C => self.features,
                0x020 => self.model,
                0x024 => self.revision,
                0x030 => 0x88,
                0x034 => self.minor[0],
                0x048 => self.specs[0],
                0x074 => self.minor[1],
                0x080 => self.specs[1],
                0x084 => self.minor[2],
                0x088 => self.minor[3],
                0x08C => self.specs[2],
                0x094 => 4,
                0x09C => self.specs[3],
                0x0A0 => 5,
                0x0A8 => 0x4508_0009,
                0x0DC => 6,
                _ => 0,
            }
        }
    }

    const GC600: Core = Core {
        model: 0x600,
        revision: 0x19,
        features: 0x0008_7ECD,
        minor: [0x7, !0, !0, !0],
        specs: [!0; 4],
    };
    const GC2000: Core = Core {
        model: 0x2000,
        revision: 0x5108,
        features: 0xE029_6CAD,
        minor: [0xC979_9EFF, 0x2EFB_F2D9, 0, 0],
        specs: [0x9441_0A68, 0x00A8_0000, 0, 0],
    };

    const GC3000: Core = Core {
        model: 0x2000,
        revision: 0xFFFF_5450,
        features: 0xE028_7CAD,
        minor: [0xC979_9EFB, 0xFEFB_FADB, 0xEB9D_4BBF, 0xEDFF_DCED],
        specs: [0xA441_0A60, 320 << 16, 16 << 4, 16 << 12],
    };

    /// The NPU of A311D, from etnaviv's list of cores.
    const NPU: Core = Core {
        model: 0x8000,
        revision: 0x7120,
        features: 0xE028_7CAC,
        minor: [0xC179_9EFF, 0xFEFB_FADB, 0xEB9D_6FBF, 0xEDFF_FCED],
        specs: [0; 4],
    };

    #[test]
    fn cores_that_only_have_a_2d_pipe_are_2d() {
        let of = |model, features| {
            let core = Core {
                model,
                features,
                ..NPU
            };
            Identity::read(&core).hardware_type()
        };
        assert_eq!(of(0x520, 0xE02C_7ECA), HardwareType::TwoD);
        assert_eq!(of(0x520, 0xE02C_7ECE), HardwareType::Both);
    }

    #[test]
    fn the_2d_pipe_and_resolves_depend_on_features() {
        let of = |revision, minor_0| {
            let core = Core {
                revision,
                minor: [minor_0, 0, 0, 0],
                ..GC600
            };
            let core = Identity::read(&core);
            let has = [core.has_a8_target(), core.has_supertiles()];
            (core.rotates_2d(), has)
        };
        assert_eq!(of(0x4400, 1 << 7), (true, [false; 2]));
        assert_eq!(of(0x43FF, 1 << 7 | 1 << 29), (false, [true, false]));
        assert_eq!(of(0x4400, 1 << 12), (false, [false, true]));
    }

    #[test]
    fn neural_cores_are_of_a_kind_of_their_own() {
        let id = Identity::read(&NPU);
        assert_eq!(id.hardware_type(), HardwareType::Neural);
        assert!(id.has_3d() && id.has_mmu_v2() && !id.is_known());
        let words = IdentityWords::from(&id).0;
        // CAST: the number of a variant.
        let word = |word: IdentityWord| words[word as usize];
        assert_eq!(word(IdentityWord::Product), 0x4508_0009);
        assert_eq!(word(IdentityWord::Customer), 0x88);
        assert_eq!(word(IdentityWord::NeuralCores), 8);
        assert!(id.has_secure_mmu && !Identity::read(&GC600).has_secure_mmu);
        let id = Identity::read(&Core {
            revision: 0x6205,
            ..NPU
        });
        assert_eq!(id.hardware_type(), HardwareType::ThreeD);
        assert!(id.needs_flop_reset());
        // These registers are not read on known cores.
        assert_eq!(Identity::read(&GC600).design, [0; 3]);
    }

    #[test]
    fn the_parameter_goes_before_the_registers() {
        let text = "0x8000:0x7120,NNCoreCount=0,0x8000:0x7200,chipFeatures=0x4,chipMinorFeatures6=6,NNCoreCount=2";
        let id = Identity::read(&NPU);
        let open = id.amended(Row::of("0x8000:0x7120,SECURITY_AHB=0", id.read_model));
        assert!(id.has_secure_mmu && !open.has_secure_mmu);
        let amended = id.amended(Row::of(text, id.read_model));
        assert_eq!(amended.hardware_type(), HardwareType::ThreeD);
        assert_eq!((amended.overrides, amended.features), (1, id.features));
        let id = Identity::read(&Core {
            revision: 0x7200,
            ..NPU
        });
        assert_eq!(id.hardware_type(), HardwareType::ThreeD);
        let amended = id.amended(Row::of(text, id.read_model));
        assert_eq!(amended.hardware_type(), HardwareType::Neural);
        assert_eq!((amended.overrides, amended.features), (3, 4));
        assert_eq!(amended.minor_features, id.minor_features);
        assert_eq!(amended.later_minor_features[2], 6);
    }

    #[test]
    fn imx6qp_has_another_name_and_mmu_version_2() {
        let id = Identity::read(&GC3000);
        assert_eq!((id.model, id.revision), (0x3000, 0x5450));
        assert!(id.has_mmu_v2() && id.has_3d() && !id.has_2d());
        assert!(id.has_new_memory_controller() && !id.needs_event_padding());
        assert_eq!((id.instruction_count, id.num_constants), (512, 320));
        assert_eq!(id.varyings_count, 12);
        assert!(!Identity::read(&GC2000).has_mmu_v2());
    }

    #[test]
    fn newer_drivers_count_otherwise() {
        let id = Identity::read(&GC3000);
        assert_eq!(id.read_model, (0x2000, 0xFFFF_5450));
        assert_eq!((id.all_streams, id.free_varyings), (16, 16));
        let words = IdentityWords::from(&id).0;
        // CAST: the number of a variant.
        let word = |word: IdentityWord| words[word as usize];
        assert_eq!(word(IdentityWord::Flags), 2);
        assert_eq!(word(IdentityWord::RawFlags), 0);
        assert_eq!(word(IdentityWord::Minor6), 6);
        let id = Identity::read(&GC2000);
        assert_eq!((id.all_streams, id.free_varyings), (8, 11));
        assert_eq!(id.read_model, (id.model, id.revision));
        let id = Identity::read(&GC600);
        assert_eq!((id.all_streams, id.free_varyings), (1, 8));
        assert_eq!(id.later_minor_features, [0; 3]);
    }

    #[test]
    fn dove_has_defaults_only() {
        let id = Identity::read(&GC600);
        assert_eq!(id.minor_features, [0x7, 0, 0, 0]);
        assert_eq!(
            (id.stream_count, id.register_max, id.thread_count),
            (1, 64, 256)
        );
        assert_eq!((id.shader_core_count, id.vertex_cache_size), (1, 8));
        assert_eq!(id.vertex_output_buffer_size, 512);
        assert!(id.has_2d() && id.has_3d() && id.needs_event_padding() && !id.has_mmu_v2());
        assert_eq!(id.hardware_type(), HardwareType::Both);
    }

    #[test]
    fn imx6q_counts_its_instructions_right() {
        let id = Identity::read(&GC2000);
        assert_eq!(id.instruction_count, 512);
        assert_eq!(id.num_constants, 168);
        assert_eq!(id.pixel_pipes, 2);
        assert_eq!(
            (id.stream_count, id.register_max, id.thread_count),
            (8, 64, 1024)
        );
        assert_eq!((id.shader_core_count, id.vertex_cache_size), (4, 16));
        assert_eq!(id.vertex_output_buffer_size, 512);
        assert!(!id.has_2d() && id.has_3d() && !id.needs_event_padding());
        assert_eq!(id.hardware_type(), HardwareType::ThreeD);
        assert_eq!(id.varyings_count, 12);
    }

    #[test]
    fn vector_graphics_tells_five_words() {
        let id = Identity::read(&Core {
            model: 0x355,
            revision: 0x1215,
            features: 0x1E2C_7CC8,
            minor: [0x0024_207F, 0x0001_0104, !0, !0],
            specs: [!0; 4],
        });
        assert_eq!(id.hardware_type(), HardwareType::Vector);
        let mut reported = Identity {
            model: 0x355,
            revision: 0x1215,
            read_model: (0x355, 0x1215),
            features: 0x1E2C_7CC8,
            ..Default::default()
        };
        reported.minor_features = [0x0024_207F, 0, 0x0001_0104, 0];
        assert_eq!(id.reported(Choice::Auto, Choice::Auto), reported);
        assert!(!id.has_mmu_v2());
    }

    #[test]
    fn the_parameters_take_features_away() {
        let id = Identity::read(&GC600);
        assert_eq!(
            id.reported(Choice::Auto, Choice::Auto).features,
            id.features
        );
        assert_eq!(
            id.reported(Choice::Off, Choice::Auto).features,
            id.features & !(FEATURE_FAST_CLEAR | FEATURE_COMPRESSION)
        );
    }

    #[test]
    fn an_empty_bus_is_no_core() {
        for word in [0, !0] {
            let id = Identity::read(&Core {
                model: word,
                revision: word,
                features: word,
                minor: [word; 4],
                specs: [word; 4],
            });
            assert!(!id.is_plausible());
        }
    }
}
