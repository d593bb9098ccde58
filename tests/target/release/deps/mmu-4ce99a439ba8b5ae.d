/work/main/tests/target/release/deps/mmu-4ce99a439ba8b5ae.d: selftests/src/bin/mmu.rs

/work/main/tests/target/release/deps/libmmu-4ce99a439ba8b5ae.rmeta: selftests/src/bin/mmu.rs

selftests/src/bin/mmu.rs:
