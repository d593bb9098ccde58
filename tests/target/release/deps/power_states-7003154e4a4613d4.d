/work/main/tests/target/release/deps/power_states-7003154e4a4613d4.d: selftests/src/bin/power-states.rs

/work/main/tests/target/release/deps/libpower_states-7003154e4a4613d4.rmeta: selftests/src/bin/power-states.rs

selftests/src/bin/power-states.rs:
