/work/main/tests/target/release/deps/commit_addresses-244388cbb480e0d1.d: selftests/src/bin/commit-addresses.rs

/work/main/tests/target/release/deps/libcommit_addresses-244388cbb480e0d1.rmeta: selftests/src/bin/commit-addresses.rs

selftests/src/bin/commit-addresses.rs:
