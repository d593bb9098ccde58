/work/main/tests/target/release/deps/two_clients-025144784d548daa.d: selftests/src/bin/two-clients.rs

/work/main/tests/target/release/deps/libtwo_clients-025144784d548daa.rmeta: selftests/src/bin/two-clients.rs

selftests/src/bin/two-clients.rs:
