/work/main/tests/target/release/deps/power-1419f245b70763f5.d: selftests/src/bin/power.rs

/work/main/tests/target/release/deps/libpower-1419f245b70763f5.rmeta: selftests/src/bin/power.rs

selftests/src/bin/power.rs:
