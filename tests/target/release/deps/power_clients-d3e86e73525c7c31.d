/work/main/tests/target/release/deps/power_clients-d3e86e73525c7c31.d: selftests/src/bin/power-clients.rs

/work/main/tests/target/release/deps/libpower_clients-d3e86e73525c7c31.rmeta: selftests/src/bin/power-clients.rs

selftests/src/bin/power-clients.rs:
