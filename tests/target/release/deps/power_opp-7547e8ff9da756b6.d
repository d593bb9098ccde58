/work/main/tests/target/release/deps/power_opp-7547e8ff9da756b6.d: selftests/src/bin/power-opp.rs

/work/main/tests/target/release/deps/libpower_opp-7547e8ff9da756b6.rmeta: selftests/src/bin/power-opp.rs

selftests/src/bin/power-opp.rs:
