/work/main/tests/target/release/deps/command_locations-087e4d0d12618f99.d: selftests/src/bin/command-locations.rs

/work/main/tests/target/release/deps/libcommand_locations-087e4d0d12618f99.rmeta: selftests/src/bin/command-locations.rs

selftests/src/bin/command-locations.rs:
